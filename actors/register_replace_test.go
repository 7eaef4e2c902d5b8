package actors

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// evict brings fs to eviction. Its second session takes 3 s to be released.
func evict(t *testing.T, h *harness) {
	t.Helper()
	h.scriptSessions("fs", script{tools: []string{"ls"}}, script{openHangs: true, releaseAfter: 3 * time.Second})
	h.register(mcpvisor.ServerSpec{Name: "fs"})
	h.session("fs").Abort(errScripted)
	require.Equal(t, supervisor.StateEvicted, h.state("fs"))
}

func TestRegister(t *testing.T) {
	ctx := context.Background()
	fs := mcpvisor.ServerSpec{Name: "fs"}

	t.Run("replaces_an_evicted_name", func(t *testing.T) {
		withHarness(t, func(t *testing.T, h *harness) {
			evict(t, h)
			events := h.events()
			before := h.rt.Snapshot()
			require.NoError(t, h.rt.Register(ctx, fs))
			require.NotNil(t, before.Server("fs"))
			v := h.rt.Snapshot().Server("fs")
			require.Equal(t, supervisor.StateReady, v.State)
			require.EqualValues(t, 2, v.Gen)
			require.EqualValues(t, 1, v.Epoch)
			require.Len(t, h.rt.Snapshot().Tools(), 1)
			require.Equal(t, []mcpvisor.EventKind{mcpvisor.EventUnregistered, mcpvisor.EventRegistered,
				mcpvisor.EventConnecting, mcpvisor.EventReady}, kinds(events()))
			require.EqualValues(t, 1, events()[0].Gen)
			require.NoError(t, h.rt.Unregister(ctx, "fs"))
			require.Empty(t, h.rt.Snapshot().Names())
		})
	})

	t.Run("replaces_an_evicted_name_without_a_moment_in_which_it_is_unknown", func(t *testing.T) {
		withHarness(t, func(t *testing.T, h *harness) {
			evict(t, h)
			s := h.rt.Snapshot()
			go func() { _ = h.rt.Register(ctx, fs) }()
			for s.Server("fs").State != supervisor.StateReady {
				<-s.Changed()
				s = h.rt.Snapshot()
				require.NotNil(t, s.Server("fs"))
			}
			synctest.Wait()
		})
	})

	t.Run("rejects_the_second_of_two_replacements", func(t *testing.T) {
		withHarness(t, func(t *testing.T, h *harness) {
			evict(t, h)
			h.script("fs", script{tools: []string{"ls"}, openAfter: time.Second})
			errs := make(chan error, 2)
			for range 2 {
				go func() { errs <- h.rt.Register(ctx, fs) }()
			}
			require.ErrorIs(t, <-errs, mcpvisor.ErrExists)
			require.NoError(t, <-errs)
		})
	})

	t.Run("replaces_an_evicted_name_whose_restart_has_just_begun", func(t *testing.T) {
		withHarness(t, func(t *testing.T, h *harness) {
			evict(t, h)
			h.rt.inbox.mu.Lock() // both messages are handled before the restart is reported
			restarted, registered := make(chan error, 1), make(chan error, 1)
			h.rt.inbox.messages = append(h.rt.inbox.messages,
				&messages.Restart{Name: "fs", Reply: restarted},
				&messages.Register{Spec: fs, Reply: registered, Accepted: make(chan uint64, 1)})
			h.rt.inbox.mu.Unlock()
			h.send(h.rt.manager.Load(), &wake{})
			<-restarted
			require.Equal(t, 3*time.Second, spends(func() { require.NoError(t, <-registered) }), "the old session is released first")
			require.EqualValues(t, 2, h.rt.Snapshot().Server("fs").Gen)
		})
	})

	t.Run("gives_up_a_replacement_that_is_unregistered", func(t *testing.T) {
		withHarness(t, func(t *testing.T, h *harness) {
			evict(t, h)
			registered, unregistered := make(chan error, 1), make(chan error, 1)
			h.rt.inbox.mu.Lock()
			h.rt.inbox.messages = append(h.rt.inbox.messages,
				&messages.Register{Spec: fs, Reply: registered, Accepted: make(chan uint64, 1)},
				&messages.Unregister{Name: "fs", Reply: unregistered})
			h.rt.inbox.mu.Unlock()
			h.send(h.rt.manager.Load(), &wake{})
			require.ErrorIs(t, <-registered, mcpvisor.ErrClosed)
			require.NoError(t, <-unregistered)
			synctest.Wait()
			require.Empty(t, h.rt.Snapshot().Names())
			require.Len(t, h.sessions("fs"), 1)
		})
	})

	t.Run("gives_up_a_replacement_when_the_client_closes", func(t *testing.T) {
		withHarness(t, func(t *testing.T, h *harness) {
			evict(t, h)
			registered := make(chan error, 1)
			h.rt.inbox.mu.Lock()
			h.rt.inbox.messages = append(h.rt.inbox.messages,
				&messages.Register{Spec: fs, Reply: registered, Accepted: make(chan uint64, 1)},
				&messages.CloseAll{})
			h.rt.inbox.mu.Unlock()
			h.send(h.rt.manager.Load(), &wake{})
			require.ErrorIs(t, <-registered, mcpvisor.ErrClosed)
			require.Len(t, h.sessions("fs"), 1)
		})
	})

	t.Run("keeps_a_replacement_across_a_crash_of_the_manager", func(t *testing.T) {
		withHarness(t, func(t *testing.T, h *harness) {
			evict(t, h)
			registered := make(chan error, 1)
			h.rt.inbox.mu.Lock()
			h.rt.inbox.messages = append(h.rt.inbox.messages,
				&messages.Register{Spec: fs, Reply: registered, Accepted: make(chan uint64, 1)}, (*report)(nil))
			h.rt.inbox.mu.Unlock()
			h.send(h.rt.manager.Load(), &wake{})
			require.NoError(t, <-registered)
			require.Equal(t, supervisor.StateReady, h.state("fs"))
		})
	})

	t.Run("withdraws_a_replacement_when_its_context_ends", func(t *testing.T) {
		withHarness(t, func(t *testing.T, h *harness) {
			evict(t, h)
			h.script("fs", script{openHangs: true})
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			require.ErrorIs(t, h.rt.Register(ctx, fs), mcpvisor.ErrCanceled)
			require.Equal(t, supervisor.State("absent"), h.state("fs"))
		})
	})
}
