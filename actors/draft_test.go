package actors

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// One snapshot shows the changes of all messages that wait. What follows a change is done
// after it is published, in the order of the messages.
func TestDraft_one_snapshot_for_many_changes(t *testing.T) {
	rt := &Runtime{}
	first := newSnapshot(map[string]*View{"old": {Name: "old"}}, false)
	rt.snapshot.Store(first)
	m := &manager{rt: rt, state: &managerState{}}
	const many = 500
	var order []int
	for i := range many {
		name := fmt.Sprint("s", i)
		m.setView(name, &View{Name: name})
		require.NotNil(t, m.view(name))
		m.afterPublish(func() {
			require.NotNil(t, rt.Snapshot().Server(name))
			order = append(order, i)
		})
	}
	m.setView("old", nil)
	require.Nil(t, m.view("old"))
	require.Same(t, first, rt.Snapshot(), "published too early")
	m.flush()
	require.True(t, isClosed(first.Changed()))
	second := rt.Snapshot()
	require.Len(t, second.Names(), many)
	require.Len(t, order, many)
	require.IsIncreasing(t, order)
	m.flush()
	require.Same(t, second, rt.Snapshot(), "nothing has changed")
}

// A manager that crashes in what follows a change leaves the rest to the next one.
func TestDraft_outlives_its_manager(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(mcpvisor.ServerSpec{Name: "fs"})
		reply := make(chan error, 1)
		m := &manager{rt: h.rt, state: &h.rt.managerState}
		h.state("fs") // the manager is idle
		m.afterPublish(func() { panic("scripted") })
		view := *h.rt.Snapshot().Server("fs")
		view.State, view.Catalog = supervisor.StateConnecting, nil
		m.setView("fs", &view)
		m.reply(reply, nil)
		h.crashManager()
		require.NoError(t, <-reply)
		require.Equal(t, supervisor.StateReady, h.state("fs"), "the supervising actor was asked for a report")
	})
}

// A caller finds its own change published, even while many others change something.
func TestDraft_reply_follows_the_snapshot(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		var callers sync.WaitGroup
		for i := range 3 * maxDraftMessages {
			name := fmt.Sprint("s", i)
			h.script(name, script{tools: []string{"ls"}})
			callers.Go(func() {
				if err := h.rt.Register(context.Background(), mcpvisor.ServerSpec{Name: name}); err != nil || len(h.rt.Snapshot().Server(name).Listed().Tools) != 1 {
					t.Errorf("%s: registered, and not listed: %v", name, err)
				}
				if err := h.rt.Unregister(context.Background(), name); err != nil || h.rt.Snapshot().Server(name) != nil {
					t.Errorf("%s: unregistered, and listed: %v", name, err)
				}
			})
		}
		callers.Wait()
		reply := make(chan error, 1)
		h.rt.post(&messages.Unregister{Name: "none", Reply: reply})
		require.ErrorIs(t, <-reply, mcpvisor.ErrUnknownServer)
	})
}
