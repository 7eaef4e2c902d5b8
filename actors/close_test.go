package actors

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestCloseInEachState(t *testing.T) {
	for _, c := range states() {
		t.Run(string(c.state), func(t *testing.T) {
			withHarness(t, func(t *testing.T, h *harness) {
				c.reach(h)
				require.Equal(t, c.state, h.state("fs"))
				require.Equal(t, c.release, spends(func() { require.NoError(t, h.rt.Close(context.Background())) }))
				require.Empty(t, h.rt.Snapshot().Names())
			})
		})
	}
}

// Servers are stopped in parallel: together they take as long as the slowest.
func TestCloseStopsServersInParallel(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		for i := range 10 {
			name := fmt.Sprintf("s%d", i)
			h.script(name, script{tools: []string{"ls"}, releaseAfter: time.Duration(i) * time.Second})
			h.register(mcpvisor.ServerSpec{Name: name})
		}
		impatient, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		errs := make([]error, 5)
		for i := range errs {
			wg.Go(func() { errs[i] = h.rt.Close(context.Background()) })
		}
		wg.Go(func() {
			if err := h.rt.Close(impatient); err == nil {
				t.Error("Close is over before the slowest server is")
			}
		})
		synctest.Wait()
		require.Empty(t, h.rt.Snapshot().Tools())
		require.Equal(t, 9*time.Second, spends(wg.Wait))
		for _, err := range errs {
			require.NoError(t, err)
		}
		require.NoError(t, h.rt.Close(context.Background()))
	})
}

func TestOperationsAfterCloseFail(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		events := h.rt.Watch(context.Background())
		h.script("fs", script{tools: []string{"ls"}})
		h.register(mcpvisor.ServerSpec{Name: "fs"})
		v := h.rt.Snapshot().Server("fs")
		require.NoError(t, h.rt.Close(context.Background()))
		synctest.Wait()
		unread := len(h.rt.inbox.messages)
		require.Zero(t, spends(func() {
			require.ErrorIs(t, h.rt.Register(context.Background(), mcpvisor.ServerSpec{Name: "fs"}), mcpvisor.ErrClosed)
			require.ErrorIs(t, h.rt.Restart(context.Background(), "fs"), mcpvisor.ErrClosed)
			require.NoError(t, h.rt.Unregister(context.Background(), "fs"), "it is gone, as asked")
			_, err := h.rt.AwaitReady(context.Background(), "fs")
			require.ErrorIs(t, err, mcpvisor.ErrClosed)
			_, _, err = h.rt.Request(context.Background(), v, callRequest, 0)
			require.ErrorIs(t, err, mcpvisor.ErrUnavailable, "a view from before: nothing was sent")
			var list []mcpvisor.Event
			for e := range events {
				list = append(list, e)
			}
			require.Equal(t, mcpvisor.EventUnregistered, list[len(list)-1].Kind)
			_, open := <-h.rt.Watch(context.Background())
			require.False(t, open)
		}))
		require.Len(t, h.rt.inbox.messages, unread, "messages that no manager will handle are not kept")
	})
}

// A Register, Unregister or Restart in progress is answered when Close comes.
func TestCloseAnswersWaitingOperations(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("slow", script{openHangs: true, releaseAfter: 2 * time.Second})
		h.script("fs", script{tools: []string{"ls"}, releaseAfter: 10 * time.Second})
		h.register(mcpvisor.ServerSpec{Name: "fs"})
		var wg sync.WaitGroup
		var register, unregister, await, late error
		wg.Go(func() { register = h.rt.Register(context.Background(), mcpvisor.ServerSpec{Name: "slow"}) })
		wg.Go(func() { unregister = h.rt.Unregister(context.Background(), "fs") })
		synctest.Wait()
		wg.Go(func() { _, await = h.rt.AwaitReady(context.Background(), "slow") })
		wg.Go(func() { _ = h.rt.Close(context.Background()) })
		synctest.Wait()
		wg.Go(func() { late = h.rt.Register(context.Background(), mcpvisor.ServerSpec{Name: "late"}) })
		require.Equal(t, 10*time.Second, spends(wg.Wait))
		require.ErrorIs(t, register, mcpvisor.ErrClosed)
		require.NoError(t, unregister)
		require.ErrorIs(t, await, mcpvisor.ErrClosed)
		require.ErrorIs(t, late, mcpvisor.ErrClosed)
	})
}

func TestCloseWithoutServers(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		_, err := h.rt.AwaitReady(context.Background(), "fs")
		require.ErrorIs(t, err, mcpvisor.ErrUnknownServer)
		require.NoError(t, h.rt.Close(context.Background()))
		_, err = h.rt.AwaitReady(context.Background(), "fs")
		require.ErrorIs(t, err, mcpvisor.ErrClosed)
		require.Equal(t, supervisor.State("absent"), h.state("fs"))
	})
}
