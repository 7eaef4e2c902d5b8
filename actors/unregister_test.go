package actors

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestUnregisterDuringBackoffReturnsAtOnce(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		long := supervisor.Retry(3, time.Hour, supervisor.WithMaxDelay(time.Hour))
		h.register(mcpvisor.ServerSpec{Name: "fs", Policy: long})
		h.session("fs").Abort(errScripted)
		require.Equal(t, supervisor.StateBackoff, h.state("fs"))
		require.Zero(t, spends(func() { require.NoError(t, h.rt.Unregister(context.Background(), "fs")) }))
		require.Empty(t, h.rt.Snapshot().Names())

		h.register(mcpvisor.ServerSpec{Name: "fs", Policy: long})
		time.Sleep(2 * time.Hour)
		require.Len(t, h.sessions("fs"), 2, "the timer of the old registration dials nothing")
		require.Equal(t, uint64(1), h.rt.Snapshot().Server("fs").Epoch)
	})
}

// Late messages of an old registration change nothing in the new one.
func TestMessagesOfAnOldRegistrationAreStale(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(mcpvisor.ServerSpec{Name: "fs"})
		old, before := h.supervisorOf("fs"), h.rt.Snapshot().Server("fs")
		require.NoError(t, h.rt.Unregister(context.Background(), "fs"))
		h.register(mcpvisor.ServerSpec{Name: "fs"})
		fresh, v := h.supervisorOf("fs"), h.rt.Snapshot().Server("fs")
		require.NotEqual(t, old.Id, fresh.Id)
		require.Greater(t, v.Gen, before.Gen)

		stale := h.rt.Stale()
		for _, m := range []any{&messages.Died{Epoch: 1, Cause: errScripted}, &messages.Released{Epoch: 1},
			&messages.TimerDue{Token: 1}, &messages.Failed{Epoch: 1, Cause: errScripted}} {
			h.send(old, m)
		}
		dead := *before
		dead.State, dead.Catalog = supervisor.StateStopped, nil
		h.rt.post(&report{name: "fs", gen: before.Gen, view: &dead})
		h.rt.post(&supervisorEnded{name: "fs", gen: before.Gen, released: true})
		h.rt.post(&supervisorStarted{name: "fs", gen: before.Gen, pid: old})
		reply := make(chan error, 1)
		h.rt.post(&messages.Unregister{Name: "fs", Gen: before.Gen, Reply: reply})
		require.ErrorIs(t, <-reply, mcpvisor.ErrUnknownServer)
		synctest.Wait()
		require.Same(t, v, h.rt.Snapshot().Server("fs"))
		require.Equal(t, fresh.Id, h.supervisorOf("fs").Id)
		require.Equal(t, stale+1, h.rt.Stale())
	})
}

// Within one registration, messages about an old epoch or timer change nothing.
func TestMessagesOfAnOldEpochAreStale(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(mcpvisor.ServerSpec{Name: "fs", Policy: supervisor.Retry(3, time.Second)})
		h.session("fs").Abort(errScripted)
		time.Sleep(2 * time.Second)
		require.Equal(t, supervisor.StateReady, h.state("fs"))
		v := h.rt.Snapshot().Server("fs")
		pid := h.supervisorOf("fs")
		for _, m := range []any{&messages.Died{Epoch: 1, Cause: errScripted}, &messages.Released{Epoch: 1},
			&messages.Failed{Epoch: 1, Cause: errScripted}, &messages.Opened{Epoch: 1},
			&messages.Discovered{Epoch: 1, Catalog: catalog.New(catalog.Catalog{})}, &messages.TimerDue{Token: 1}} {
			h.send(pid, m)
		}
		synctest.Wait()
		require.Same(t, v, h.rt.Snapshot().Server("fs"), "nothing was even reported")
		h.send(pid, &messages.ReconcileRequest{})
		synctest.Wait()
		require.Equal(t, v.Catalog, h.rt.Snapshot().Server("fs").Catalog)
	})
}

func TestUnregisterInEachState(t *testing.T) {
	for _, c := range states() {
		t.Run(string(c.state), func(t *testing.T) {
			withHarness(t, func(t *testing.T, h *harness) {
				c.reach(h)
				require.Equal(t, c.state, h.state("fs"))
				require.Equal(t, c.release, spends(func() { require.NoError(t, h.rt.Unregister(context.Background(), "fs")) }))
				require.Empty(t, h.rt.Snapshot().Names())
				require.Len(t, h.sessions("fs"), c.dialled)
				time.Sleep(3 * time.Hour)
				require.Len(t, h.sessions("fs"), c.dialled, "and nothing comes after")
				require.ErrorIs(t, h.rt.Unregister(context.Background(), "fs"), mcpvisor.ErrUnknownServer)
			})
		})
	}
}

// Several callers may unregister; all are answered when everything is released.
func TestConcurrentUnregister(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}, releaseAfter: 10 * time.Second})
		h.register(mcpvisor.ServerSpec{Name: "fs"})
		impatient, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		errs := make([]error, 3)
		for i := range errs {
			wg.Go(func() { errs[i] = h.rt.Unregister(context.Background(), "fs") })
		}
		require.ErrorIs(t, h.rt.Unregister(impatient, "fs"), mcpvisor.ErrCanceled)
		require.Equal(t, supervisor.StateStopping, h.state("fs"))
		require.Equal(t, 9*time.Second, spends(wg.Wait))
		for _, err := range errs {
			require.NoError(t, err)
		}
	})
}

func TestUnregisterAnswersWaitingRegister(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{openHangs: true})
		registered := make(chan error, 1)
		go func() { registered <- h.rt.Register(context.Background(), mcpvisor.ServerSpec{Name: "fs"}) }()
		synctest.Wait()
		require.Zero(t, spends(func() { require.NoError(t, h.rt.Unregister(context.Background(), "fs")) }))
		require.ErrorIs(t, <-registered, mcpvisor.ErrClosed)
	})
}
