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
	"github.com/mcpvisor/mcpvisor/transport"
)

// registerSlow registers fs. Its first session takes 3 s to be released.
func registerSlow(t *testing.T, h *harness) {
	t.Helper()
	h.scriptSessions("fs", script{tools: []string{"ls"}, releaseAfter: 3 * time.Second}, script{tools: []string{"ls"}})
	h.register(mcpvisor.ServerSpec{Name: "fs"})
}

// postAll posts messages that the manager handles one after the other.
func (h *harness) postAll(all ...messages.Message) {
	h.rt.inbox.mu.Lock()
	h.rt.inbox.messages = append(h.rt.inbox.messages, all...)
	h.rt.inbox.mu.Unlock()
	h.send(h.rt.manager.Load(), &wake{})
}

func TestReplace(t *testing.T) {
	ctx := context.Background()
	fs := mcpvisor.ServerSpec{Name: "fs", Origin: "new"}

	runWithHarness(t, "registers_a_free_name", func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		require.NoError(t, replace(h.rt, ctx, fs))
		require.Equal(t, supervisor.StateReady, h.state("fs"))
	})

	runWithHarness(t, "never_leaves_the_name_unknown", func(t *testing.T, h *harness) {
		registerSlow(t, h)
		s := h.rt.Snapshot()
		go func() { _ = replace(h.rt, ctx, fs) }()
		for s.Server("fs").Gen == 1 || s.Server("fs").State != supervisor.StateReady {
			<-s.Changed()
			s = h.rt.Snapshot()
			require.NotNil(t, s.Server("fs"))
		}
		require.Equal(t, "new", s.Server("fs").Spec.Origin)
		synctest.Wait()
	})

	runWithHarness(t, "waits_until_the_old_server_is_released", func(t *testing.T, h *harness) {
		registerSlow(t, h)
		events := h.events()
		require.Equal(t, 3*time.Second, spends(func() { require.NoError(t, replace(h.rt, ctx, fs)) }))
		require.Equal(t, []mcpvisor.EventKind{mcpvisor.EventUnregistered, mcpvisor.EventRegistered,
			mcpvisor.EventConnecting, mcpvisor.EventReady}, kinds(events())[len(events())-4:])
		require.Len(t, h.rt.Snapshot().Tools(), 1)
	})

	runWithHarness(t, "callers_that_wait_get_the_new_server", func(t *testing.T, h *harness) {
		registerSlow(t, h)
		go func() { _ = replace(h.rt, ctx, fs) }()
		synctest.Wait()
		require.True(t, h.rt.Snapshot().Server("fs").Leaving())
		require.Empty(t, h.rt.Snapshot().Tools())
		_, _, err := h.rt.Request(ctx, h.rt.Snapshot().Server("fs"), &transport.Request{Method: "tools/call"}, 0)
		require.ErrorIs(t, err, mcpvisor.ErrUnavailable)
		v, err := h.rt.AwaitReady(ctx, "fs")
		require.NoError(t, err)
		require.EqualValues(t, 2, v.Gen)
		synctest.Wait()
	})

	runWithHarness(t, "replaces_an_evicted_server_for_callers_that_wait", func(t *testing.T, h *harness) {
		evict(t, h)
		h.rt.desiredOf(1).SetLevel("error")
		h.postAll(&messages.Operate{Order: messages.OrderRestart, Name: "fs", Reply: make(chan error, 1)}) // a session that takes time to be released
		synctest.Wait()
		go func() { _ = replace(h.rt, ctx, fs) }()
		synctest.Wait()
		v, err := h.rt.AwaitReady(ctx, "fs")
		require.NoError(t, err)
		require.EqualValues(t, 2, v.Gen)
		require.Equal(t, "error", h.rt.desiredOf(2).LogLevel())
		synctest.Wait()
	})

	runWithHarness(t, "passes_what_is_desired_on_but_register_does_not", func(t *testing.T, h *harness) {
		registerSlow(t, h)
		h.rt.desiredOf(1).SetResource("x:a", true)
		require.NoError(t, replace(h.rt, ctx, fs))
		_, uris, _ := h.rt.desiredOf(2).Snapshot()
		require.Equal(t, []string{"x:a"}, uris)
		_, old := h.rt.desired.Load(uint64(1))
		require.False(t, old)
		require.NoError(t, h.rt.Unregister(ctx, "fs"))
		require.NoError(t, h.rt.Register(ctx, fs))
		_, uris, _ = h.rt.desiredOf(3).Snapshot()
		require.Empty(t, uris)
	})

	runWithHarness(t, "the_last_of_several_counts", func(t *testing.T, h *harness) {
		registerSlow(t, h)
		first, second := make(chan error, 1), make(chan error, 1)
		later := fs
		later.Origin = "later"
		h.postAll(&messages.Register{Spec: fs, Replace: true, Reply: first}, &messages.Register{Spec: later, Replace: true, Reply: second})
		require.ErrorIs(t, <-first, mcpvisor.ErrExists)
		require.NoError(t, <-second)
		require.Equal(t, "later", h.rt.Snapshot().Server("fs").Spec.Origin)
		require.Len(t, h.sessions("fs"), 2)
	})

	runWithHarness(t, "takes_the_place_of_a_server_that_is_being_unregistered", func(t *testing.T, h *harness) {
		registerSlow(t, h)
		unregistered, replaced := make(chan error, 1), make(chan error, 1)
		h.postAll(&messages.Unregister{Name: "fs", Reply: unregistered}, &messages.Register{Spec: fs, Replace: true, Reply: replaced})
		require.NoError(t, <-unregistered)
		require.NoError(t, <-replaced)
		require.EqualValues(t, 2, h.rt.Snapshot().Server("fs").Gen)
	})

	runWithHarness(t, "is_given_up_when_the_name_is_unregistered", func(t *testing.T, h *harness) {
		registerSlow(t, h)
		unregistered, replaced := make(chan error, 1), make(chan error, 1)
		h.postAll(&messages.Register{Spec: fs, Replace: true, Reply: replaced}, &messages.Unregister{Name: "fs", Reply: unregistered})
		require.ErrorIs(t, <-replaced, mcpvisor.ErrClosed)
		require.NoError(t, <-unregistered)
		require.Empty(t, h.rt.Snapshot().Names())
	})

	runWithHarness(t, "survives_a_crash_of_the_manager", func(t *testing.T, h *harness) {
		registerSlow(t, h)
		replaced := make(chan error, 1)
		h.postAll(&messages.Register{Spec: fs, Replace: true, Reply: replaced}, (*report)(nil))
		require.NoError(t, <-replaced)
		require.EqualValues(t, 2, h.rt.Snapshot().Server("fs").Gen)
	})

	runWithHarness(t, "goes_on_when_its_context_ends", func(t *testing.T, h *harness) {
		registerSlow(t, h)
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		require.ErrorIs(t, replace(h.rt, ctx, fs), mcpvisor.ErrCanceled)
		v, err := h.rt.AwaitReady(context.Background(), "fs")
		require.NoError(t, err)
		require.EqualValues(t, 2, v.Gen)
		synctest.Wait()
	})

	runWithHarness(t, "ends_with_the_client", func(t *testing.T, h *harness) {
		registerSlow(t, h)
		replaced := make(chan error, 1)
		h.postAll(&messages.Register{Spec: fs, Replace: true, Reply: replaced}, &messages.CloseAll{})
		require.ErrorIs(t, <-replaced, mcpvisor.ErrClosed)
		require.Len(t, h.sessions("fs"), 1)
	})
}
