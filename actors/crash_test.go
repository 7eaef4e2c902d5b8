package actors

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestPortPanicEndsOneSession(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.scriptSessions("fs", script{tools: []string{"ls"}, callHangs: true, releaseAfter: time.Second}, script{tools: []string{"ls"}})
		h.register(mcpvisor.ServerSpec{Name: "fs", Policy: supervisor.Retry(3, time.Second)})
		failed := make(chan error, 1)
		go func() {
			_, err := h.call(context.Background(), "fs", 0)
			failed <- err
		}()
		h.crashPort("fs")
		require.Zero(t, spends(func() { require.ErrorIs(t, <-failed, mcpvisor.ErrCrashed) }))
		require.Equal(t, supervisor.StateClosing, h.state("fs"))
		require.Equal(t, supervisor.CausePanic, h.rt.Snapshot().Server("fs").Cause.Kind)
		require.Equal(t, map[supervisor.CauseKind]int64{supervisor.CausePanic: 1}, h.rt.Snapshot().Server("fs").Status().Totals.Ends)
		require.Contains(t, h.log.String(), "actor crashed")
		time.Sleep(2 * time.Second)
		require.Equal(t, supervisor.StateReady, h.state("fs"))
		require.Equal(t, 2, h.session("fs").epoch)
	})
}

// When the supervising actor fails, its registration ends. The name stays taken, and
// Unregister waits, until the session is released.
func TestSupervisorPanicEndsOneRegistration(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		// No delay between attempts gives an actor that is ending the most chances to
		// dial again.
		h.script("fs", script{tools: []string{"ls"}, releaseAfter: 9 * time.Second})
		h.script("next", script{tools: []string{"ls"}})
		h.register(mcpvisor.ServerSpec{Name: "fs", Policy: supervisor.Retry(3, 0)})
		h.register(mcpvisor.ServerSpec{Name: "next"})
		events := h.events()
		h.crashSupervisor("fs")
		require.Equal(t, supervisor.StateStopping, h.state("fs"))
		require.True(t, isClosed(h.session("fs").dead))
		require.Equal(t, "next/ls", h.rt.Snapshot().Tools()[0].Name)
		require.ErrorIs(t, h.rt.Register(context.Background(), mcpvisor.ServerSpec{Name: "fs"}), mcpvisor.ErrExists)
		require.ErrorIs(t, h.rt.Restart(context.Background(), "fs"), mcpvisor.ErrClosed)
		require.Equal(t, 9*time.Second, spends(func() { require.NoError(t, h.rt.Unregister(context.Background(), "fs")) }))
		require.Equal(t, []string{"next"}, h.rt.Snapshot().Names())
		require.Len(t, h.sessions("fs"), 1)
		require.Equal(t, []mcpvisor.EventKind{mcpvisor.EventUnregistered}, kinds(events()))
		require.Equal(t, supervisor.CausePanic, events()[0].Cause.Kind)

		h.register(mcpvisor.ServerSpec{Name: "fs"})
		require.Equal(t, supervisor.StateReady, h.state("fs"))
	})
}

func TestSupervisorPanicInEachState(t *testing.T) {
	for _, c := range states() {
		runWithHarness(t, string(c.state), func(t *testing.T, h *harness) {
			c.reach(h)
			h.crashSupervisor("fs")
			synctest.Wait()
			time.Sleep(c.release)
			require.Equal(t, supervisor.State("absent"), h.state("fs"))
			time.Sleep(10 * time.Hour)
			require.Len(t, h.sessions("fs"), 1, "no timer of a crashed actor dials")
		})
	}
}

// A message that arrives while the port is still stopping must not make a crashed
// supervising actor dial again.
func TestSupervisorIgnoresMessagesAfterPanic(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		for i := range 30 {
			name := fmt.Sprintf("s%d", i)
			h.script(name, script{tools: []string{"ls"}})
			h.register(mcpvisor.ServerSpec{Name: name, Policy: supervisor.Retry(1000, 0)})
			pid := h.supervisorOf(name)
			h.send(pid, (*messages.Failed)(nil))
			h.send(pid, &messages.OperateServer{Order: messages.OrderRestart})
			h.send(pid, &messages.OperateServer{Order: messages.OrderRestart})
			require.Equal(t, supervisor.State("absent"), h.state(name))
			require.Len(t, h.sessions(name), 1)
		}
	})
}

// Sessions, and callers that wait for a reply, outlive a crash of the manager.
func TestManagerPanicKeepsSessions(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		for i := range 5 {
			name := fmt.Sprintf("s%d", i)
			h.script(name, script{tools: []string{"ls"}, callAfter: 5 * time.Second, releaseAfter: time.Second})
			h.register(mcpvisor.ServerSpec{Name: name, Policy: supervisor.Retry(3, time.Second)})
		}
		h.script("slow", script{tools: []string{"ls"}, openAfter: time.Minute})
		before := h.rt.Snapshot().Tools()
		var wg sync.WaitGroup
		var call, register, unregister error
		wg.Go(func() { _, call = h.call(context.Background(), "s0", 0) })
		wg.Go(func() { register = h.rt.Register(context.Background(), mcpvisor.ServerSpec{Name: "slow"}) })
		wg.Go(func() { unregister = h.rt.Unregister(context.Background(), "s4") })
		synctest.Wait()
		for range 3 {
			h.crashManager()
			synctest.Wait()
		}
		require.Equal(t, uint64(4), h.rt.managers.Load())
		require.Equal(t, before[:4], h.rt.Snapshot().Tools(), "of all but the one that is leaving")
		h.session("s1").Abort(errScripted)
		h.crashManager()
		require.Equal(t, time.Minute, spends(wg.Wait))
		require.NoError(t, call)
		require.NoError(t, register)
		require.NoError(t, unregister)
		require.Equal(t, []string{"s0", "s1", "s2", "s3", "slow"}, h.rt.Snapshot().Names())
		require.Len(t, h.sessions("s0"), 1)
		require.Equal(t, uint64(2), h.rt.Snapshot().Server("s1").Epoch, "a death behind the crash is not missed")
		require.Len(t, h.rt.Snapshot().Tools(), 5)
	})
}

// The next manager handles what was sent before the crash and not handled.
func TestManagerPanicKeepsUnreadMessages(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		for range 50 {
			h.crashManager()
			require.NoError(t, h.rt.Register(context.Background(), mcpvisor.ServerSpec{Name: "fs"}))
			h.crashManager()
			require.NoError(t, h.rt.Restart(context.Background(), "fs"))
			h.crashManager()
			require.NoError(t, h.rt.Unregister(context.Background(), "fs"))
		}
		h.crashManager()
		require.NoError(t, h.rt.Close(context.Background()))
	})
}

// A crash in the middle of a change may leave the registrations and the snapshot
// different.
func TestNewManagerRepairsRegistrations(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(mcpvisor.ServerSpec{Name: "fs"})
		delete(h.rt.managerState.registrations, "fs")
		ghost := *h.rt.Snapshot().Server("fs")
		ghost.Name, ghost.Gen = "ghost", h.rt.nextGen.Add(1)
		h.rt.snapshot.Store(h.rt.Snapshot().withAll(map[string]*View{"ghost": &ghost}))
		reply := make(chan error, 1)
		h.rt.managerState.registrations["unborn"] = &registration{gen: h.rt.nextGen.Add(1), register: reply}
		h.crashManager()
		require.Equal(t, mcpvisor.ErrStart, asError(t, <-reply).Kind)
		synctest.Wait()
		require.Equal(t, []string{"fs"}, h.rt.Snapshot().Names())
		require.NoError(t, h.rt.Restart(context.Background(), "fs"))
		v, err := h.rt.AwaitReady(context.Background(), "fs")
		require.NoError(t, err)
		require.Equal(t, uint64(2), v.Epoch)
		require.NoError(t, h.rt.Unregister(context.Background(), "fs"))
	})
}

// The message that crashed its manager is not handled again. Its sender gets an error,
// unless a later report will answer it.
func TestManagerAnswersTheMessageThatCrashedIt(t *testing.T) {
	m := &manager{state: &managerState{registrations: map[string]*registration{}}}
	ask := func(message func(reply chan<- error) messages.Message) chan error {
		reply := make(chan error, 1)
		m.current = message(reply)
		m.answerAbandoned()
		return reply
	}
	register := func(reply chan<- error) messages.Message {
		return &messages.Register{Spec: mcpvisor.ServerSpec{Name: "fs"}, Reply: reply}
	}
	unregister := func(reply chan<- error) messages.Message { return &messages.Unregister{Name: "fs", Reply: reply} }
	require.ErrorIs(t, <-ask(register), mcpvisor.ErrClosed)
	require.ErrorIs(t, <-ask(unregister), mcpvisor.ErrClosed)
	require.ErrorIs(t, <-ask(func(reply chan<- error) messages.Message {
		return &messages.Operate{Order: messages.OrderRestart, Name: "fs", Reply: reply}
	}), mcpvisor.ErrClosed)

	require.ErrorIs(t, <-ask(func(reply chan<- error) messages.Message { return &report{name: "fs", replies: []chan<- error{reply}} }), mcpvisor.ErrClosed)

	waits := make(chan error, 1)
	m.state.registrations["fs"] = &registration{restart: []chan<- error{waits}}
	require.Empty(t, ask(func(reply chan<- error) messages.Message {
		m.state.registrations["fs"].register = reply
		return register(reply)
	}))
	require.Empty(t, ask(func(reply chan<- error) messages.Message {
		m.state.registrations["fs"].unregister = []chan<- error{reply}
		return unregister(reply)
	}))
	require.ErrorIs(t, <-waits, mcpvisor.ErrClosed)
}

// A crash report names the type of the message and shows the stack, and never the
// contents.
func TestCrashReportHidesSecrets(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{openPanics: true})
		err := h.rt.Register(context.Background(), mcpvisor.ServerSpec{Name: "fs",
			HTTP: &mcpvisor.HTTP{URL: "https://example.com", Headers: map[string]string{"Authorization": "Bearer hunter2"}}})
		require.ErrorContains(t, err, "scripted panic in Open")
		h.crashManager()
		require.NoError(t, h.rt.Close(context.Background()))
		h.rt.system.Root.Send(h.rt.root, &messages.Register{Spec: mcpvisor.ServerSpec{Name: "hunter2"}})
		synctest.Wait()
		require.Contains(t, h.log.String(), "session_test.go")
		require.NotContains(t, h.log.String(), "hunter2")
	})
}

// A crash is reported through the queue of the log: a writer that blocks holds up no
// actor.
func TestCrashReportWithABlockedLogWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &stuckLog{at: "actor crashed", stuck: make(chan struct{}), open: make(chan struct{})}
		h := &harness{t: t, log: &log.lines, dialers: map[string][]*scriptedDialer{}}
		h.rt = New(Options{NewDialer: h.newDialer, Logger: zerolog.New(log)})
		defer time.Sleep(2 * time.Second) // as in withHarness
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, name := range []string{"fs", "git"} {
			h.script(name, script{tools: []string{"ls"}, releaseAfter: time.Second}) // so that the name is taken until Unregister
			h.register(mcpvisor.ServerSpec{Name: name, Policy: supervisor.Retry(3, time.Second)})
		}
		h.crashPort("fs")
		<-log.stuck
		h.crashManager()
		h.crashSupervisor("fs")
		require.NoError(t, h.rt.Unregister(ctx, "fs"))
		require.NoError(t, h.rt.Restart(ctx, "git"))
		_, err := h.rt.AwaitReady(ctx, "git")
		require.NoError(t, err)
		close(log.open)
		require.NoError(t, h.rt.Close(ctx))
		require.Equal(t, 3, strings.Count(log.lines.String(), "actor crashed"), "no report is lost")
	})
}

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
