package actors

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

func TestFailedFirstStartLeavesNothing(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		why := &supervisor.Cause{Kind: supervisor.CauseExit, Message: "exited", Stderr: []string{"no such module"}}
		h.script("fs", script{openErr: why, releaseAfter: 3 * time.Second})
		events := h.events()
		var err error
		require.Equal(t, 3*time.Second, spends(func() {
			err = h.rt.Register(context.Background(), mcpvisor.ServerSpec{Name: "fs", Policy: supervisor.Retry(5, time.Second)})
		}), "the answer comes when nothing is left")
		e := asError(t, err)
		require.Equal(t, mcpvisor.ErrStart, e.Kind)
		require.Equal(t, why.Stderr, e.Stderr)
		require.ErrorIs(t, err, why)
		require.Empty(t, h.rt.Snapshot().Names())
		time.Sleep(time.Hour)
		require.Len(t, h.sessions("fs"), 1)
		require.Equal(t, []mcpvisor.EventKind{mcpvisor.EventRegistered, mcpvisor.EventConnecting,
			mcpvisor.EventStartFailed, mcpvisor.EventUnregistered}, kinds(events()))

		h.script("fs", script{tools: []string{"ls"}})
		h.register(mcpvisor.ServerSpec{Name: "fs"})
		require.Equal(t, supervisor.StateReady, h.state("fs"))
	})
}

func TestFailedFirstStartCauses(t *testing.T) {
	cases := map[string]struct {
		script script
		kind   mcpvisor.ErrorKind
		takes  time.Duration
	}{
		"open hangs":     {script{openHangs: true}, mcpvisor.ErrStart, 60 * time.Second},
		"open panics":    {script{openPanics: true}, mcpvisor.ErrStart, 0},
		"lists hang":     {script{listAfter: time.Hour, tools: []string{"ls"}}, mcpvisor.ErrStart, 30 * time.Second},
		"lists fail":     {script{listErr: true}, mcpvisor.ErrStart, 0},
		"dies listing":   {script{listAfter: time.Minute, crashAfter: time.Second}, mcpvisor.ErrStart, time.Second},
		"no credentials": {script{openErr: &supervisor.Cause{Kind: supervisor.CauseAuth, Permanent: true}}, mcpvisor.ErrAuthRequired, 0},
	}
	for name, c := range cases {
		runWithHarness(t, name, func(t *testing.T, h *harness) {
			h.script("fs", c.script)
			var err error
			require.Equal(t, c.takes, spends(func() { err = h.rt.Register(context.Background(), mcpvisor.ServerSpec{Name: "fs"}) }))
			require.Equal(t, c.kind, asError(t, err).Kind)
			require.Equal(t, name == "lists hang", strings.Contains(err.Error(), "raise Timeouts.List"))
			require.Empty(t, h.rt.Snapshot().Names())
		})
	}
}

func TestDialerFailureEndsOneRegistration(t *testing.T) {
	for name, broken := range map[string]func() (transport.Dialer, error){
		"fails":              func() (transport.Dialer, error) { return nil, errors.New("cannot") },
		"panics":             func() (transport.Dialer, error) { panic("scripted panic in NewDialer") },
		"panics in sessions": func() (transport.Dialer, error) { return nil, nil },
	} {
		runWithHarness(t, name, func(t *testing.T, h *harness) {
			h.script("good", script{tools: []string{"ls"}})
			h.register(mcpvisor.ServerSpec{Name: "good"})
			make := h.rt.opts.NewDialer
			h.rt.opts.NewDialer = func(spec mcpvisor.ServerSpec) (transport.Dialer, error) {
				if spec.Name == "bad" {
					return broken()
				}
				return make(spec)
			}
			err := h.rt.Register(context.Background(), mcpvisor.ServerSpec{Name: "bad", StartSupervised: name == "fails"})
			if name == "fails" {
				require.NoError(t, err, "accepted, and then")
			} else {
				require.Equal(t, mcpvisor.ErrStart, asError(t, err).Kind)
			}
			synctest.Wait()
			require.Equal(t, []string{"good"}, h.rt.Snapshot().Names())
			_, err = h.call(context.Background(), "good", 0)
			require.NoError(t, err)
		})
	}
}

// The reply and the end of the context may come together. If Register returns an error,
// it leaves no registration.
func TestRegisterWithEndedContextLeavesNothing(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		for range 50 {
			err := h.rt.Register(ctx, mcpvisor.ServerSpec{Name: "fs", StartSupervised: true})
			synctest.Wait()
			if err == nil {
				require.NoError(t, h.rt.Unregister(context.Background(), "fs"))
			}
			require.Empty(t, h.rt.Snapshot().Names())
		}
	})
}

func TestCanceledRegisterIsWithdrawn(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		for range 50 {
			h.register(mcpvisor.ServerSpec{Name: "fs"})
			accepted, reply := make(chan uint64, 1), make(chan error, 1)
			accepted <- h.rt.Snapshot().Server("fs").Gen
			reply <- nil
			h.rt.withdrawRegister("fs", accepted, reply)
			require.Equal(t, supervisor.State("absent"), h.state("fs"))
		}
		refused := make(chan error, 1)
		refused <- errors.New("refused")
		h.register(mcpvisor.ServerSpec{Name: "fs"})
		h.rt.withdrawRegister("fs", make(chan uint64, 1), refused)
		require.Equal(t, supervisor.StateReady, h.state("fs"), "the registration of another caller is not touched")
		before := make(chan uint64, 1)
		before <- h.rt.Snapshot().Server("fs").Gen - 1
		h.rt.withdrawRegister("fs", before, make(chan error))
		require.Equal(t, supervisor.StateReady, h.state("fs"), "nor one that has taken the name since")
	})
}

func TestRegisterRejectsATakenName(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}, releaseAfter: time.Second})
		h.register(mcpvisor.ServerSpec{Name: "fs"})
		err := h.rt.Register(context.Background(), mcpvisor.ServerSpec{Name: "fs"})
		require.ErrorIs(t, err, mcpvisor.ErrExists)
		require.Equal(t, supervisor.StateReady, h.state("fs"))
		go func() { _ = h.rt.Unregister(context.Background(), "fs") }()
		synctest.Wait()
		err = h.rt.Register(context.Background(), mcpvisor.ServerSpec{Name: "fs"})
		require.ErrorIs(t, err, mcpvisor.ErrExists)
		require.Contains(t, err.Error(), "still being removed")
	})
}

// A caller that gives up sees its server in the snapshot until it is removed: once it is
// gone, its name is free.
func TestRegister_accepts_when_the_snapshot_shows_the_server(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{})
		h.register(mcpvisor.ServerSpec{Name: "fs"}) // starts the manager
		h.script("a", script{openHangs: true})
		h.script("b", script{openHangs: true})
		first, second := make(chan uint64, 1), make(chan uint64) // the manager waits for the second one's receiver
		h.postAll(
			&messages.Register{Spec: mcpvisor.ServerSpec{Name: "a"}, Reply: make(chan error, 1), Accepted: first},
			&messages.Register{Spec: mcpvisor.ServerSpec{Name: "b"}, Reply: make(chan error, 1), Accepted: second})
		a, shown := <-first, h.rt.Snapshot()
		b := <-second
		require.EqualValues(t, 2, a)
		require.EqualValues(t, 3, b)
		require.NotNil(t, shown.Server("a"))
	})
}

// An error that requires credentials is a permanent cause for the lifecycle: a retry
// cannot help.
func TestAuthErrorIsAPermanentCause(t *testing.T) {
	c := asCause(fmt.Errorf("listing: %w", mcpvisor.ErrAuthRequired), supervisor.CauseProtocol)
	require.Equal(t, supervisor.CauseAuth, c.Kind)
	require.True(t, c.Permanent)
	c = asCause(errors.New("other"), supervisor.CauseProtocol)
	require.Equal(t, supervisor.CauseProtocol, c.Kind)
	require.False(t, c.Permanent)
}

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

	runWithHarness(t, "replaces_an_evicted_name", func(t *testing.T, h *harness) {
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

	runWithHarness(t, "replaces_an_evicted_name_without_a_moment_in_which_it_is_unknown", func(t *testing.T, h *harness) {
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

	runWithHarness(t, "rejects_the_second_of_two_replacements", func(t *testing.T, h *harness) {
		evict(t, h)
		h.script("fs", script{tools: []string{"ls"}, openAfter: time.Second})
		errs := make(chan error, 2)
		for range 2 {
			go func() { errs <- h.rt.Register(ctx, fs) }()
		}
		require.ErrorIs(t, <-errs, mcpvisor.ErrExists)
		require.NoError(t, <-errs)
	})

	runWithHarness(t, "replaces_an_evicted_name_whose_restart_has_just_begun", func(t *testing.T, h *harness) {
		evict(t, h)
		restarted, registered := make(chan error, 1), make(chan error, 1)
		h.postAll(
			&messages.Operate{Order: messages.OrderRestart, Name: "fs", Reply: restarted},
			&messages.Register{Spec: fs, Reply: registered, Accepted: make(chan uint64, 1)})
		<-restarted
		require.Equal(t, 3*time.Second, spends(func() { require.NoError(t, <-registered) }), "the old session is released first")
		require.EqualValues(t, 2, h.rt.Snapshot().Server("fs").Gen)
	})

	runWithHarness(t, "gives_up_a_replacement_that_is_unregistered", func(t *testing.T, h *harness) {
		evict(t, h)
		registered, unregistered := make(chan error, 1), make(chan error, 1)
		h.postAll(
			&messages.Register{Spec: fs, Reply: registered, Accepted: make(chan uint64, 1)},
			&messages.Unregister{Name: "fs", Reply: unregistered})
		require.ErrorIs(t, <-registered, mcpvisor.ErrClosed)
		require.NoError(t, <-unregistered)
		synctest.Wait()
		require.Empty(t, h.rt.Snapshot().Names())
		require.Len(t, h.sessions("fs"), 1)
	})

	runWithHarness(t, "gives_up_a_replacement_when_the_client_closes", func(t *testing.T, h *harness) {
		evict(t, h)
		registered := make(chan error, 1)
		h.postAll(
			&messages.Register{Spec: fs, Reply: registered, Accepted: make(chan uint64, 1)},
			&messages.CloseAll{})
		require.ErrorIs(t, <-registered, mcpvisor.ErrClosed)
		require.Len(t, h.sessions("fs"), 1)
	})

	runWithHarness(t, "keeps_a_replacement_across_a_crash_of_the_manager", func(t *testing.T, h *harness) {
		evict(t, h)
		registered := make(chan error, 1)
		h.postAll(
			&messages.Register{Spec: fs, Reply: registered, Accepted: make(chan uint64, 1)}, (*report)(nil))
		require.NoError(t, <-registered)
		require.Equal(t, supervisor.StateReady, h.state("fs"))
	})

	runWithHarness(t, "withdraws_a_replacement_when_its_context_ends", func(t *testing.T, h *harness) {
		evict(t, h)
		h.script("fs", script{openHangs: true})
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		require.ErrorIs(t, h.rt.Register(ctx, fs), mcpvisor.ErrCanceled)
		require.Equal(t, supervisor.State("absent"), h.state("fs"))
	})
}

func TestStartSupervisedBecomesReadyLater(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.scriptSessions("fs", script{openErr: errScripted}, script{openErr: errScripted}, script{tools: []string{"ls"}})
		require.Zero(t, spends(func() {
			require.NoError(t, h.rt.Register(context.Background(), mcpvisor.ServerSpec{Name: "fs", StartSupervised: true,
				Policy: supervisor.Retry(3, time.Second)}))
		}))
		started := time.Now()
		v, err := h.rt.AwaitReady(context.Background(), "fs")
		require.NoError(t, err)
		require.Equal(t, 3*time.Second, time.Since(started))
		require.Equal(t, uint64(3), v.Epoch)
		require.Equal(t, "fs/ls", h.rt.Snapshot().Tools()[0].Name)
	})
}

func TestStartSupervisedWithoutRetryStaysListedAsEvicted(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{openErr: errScripted})
		require.NoError(t, h.rt.Register(context.Background(), mcpvisor.ServerSpec{Name: "fs", StartSupervised: true}))
		require.Equal(t, supervisor.StateEvicted, h.state("fs"))
	})
}
