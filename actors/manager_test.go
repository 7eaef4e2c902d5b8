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
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// The swap of the snapshot comes first, then its events, then the replies. So a caller
// that receives an event or a reply sees the change. The hub is held, so that the
// manager stops between the steps.
func TestSnapshotSwapPrecedesEventsAndReplies(t *testing.T) {
	h := newHarness(t)
	h.script("fs", script{tools: []string{"ls"}})
	require.NoError(t, h.rt.Register(context.Background(), mcpvisor.ServerSpec{Name: "fs", Policy: supervisor.Retry(3, time.Hour)}))
	var release func() // of the hub, while it is held
	until := func(what string, is func(s *Snapshot) bool) {
		t.Helper()
		for late := time.After(20 * time.Second); ; {
			s := h.rt.Snapshot()
			if is(s) {
				return
			}
			select {
			case <-s.Changed():
			case <-late:
				release()
				require.FailNow(t, "the event precedes the swap", what)
			}
		}
	}
	release = h.rt.hub.Hold()
	h.session("fs").Abort(errScripted)
	until("down", func(s *Snapshot) bool { return len(s.Tools()) == 0 })
	release()

	until("retry", func(s *Snapshot) bool { return s.Server("fs").State == supervisor.StateBackoff })
	require.ErrorIs(t, h.rt.Restart(context.Background(), "unknown"), mcpvisor.ErrUnknownServer, "the manager has handled the crash")
	release = h.rt.hub.Hold()
	reply := make(chan error, 1)
	h.rt.post(&messages.Unregister{Name: "fs", Reply: reply})
	until("unregistered", func(s *Snapshot) bool { return s.Server("fs") == nil })
	require.Empty(t, reply, "the reply must not precede the events")
	release()
	require.NoError(t, <-reply)
	require.NoError(t, h.rt.Close(context.Background()))
}

// From the request to end it, a server offers nothing, whatever its supervising actor
// still reports.
func TestStoppingServerOffersNothing(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}, releaseAfter: 10 * time.Second})
		h.register(mcpvisor.ServerSpec{Name: "fs"})
		ready := *h.rt.Snapshot().Server("fs")
		go func() { _ = h.rt.Unregister(context.Background(), "fs") }()
		require.Equal(t, supervisor.StateStopping, h.state("fs"))
		h.rt.post(&report{name: "fs", gen: ready.Gen, view: &ready}) // it became ready just before it received Stop
		require.Equal(t, supervisor.StateStopping, h.state("fs"))
		require.Empty(t, h.rt.Snapshot().Tools())
	})
	// Also before the manager knows the supervising actor.
	rt := &Runtime{}
	m := &manager{rt: rt, state: &managerState{}}
	rt.snapshot.Store(newSnapshot(map[string]*View{"s": bigView("s", 3)}, false))
	m.stop(nil, "s", &registration{}, time.Time{})
	m.flush()
	require.Empty(t, rt.Snapshot().Tools())
	require.Equal(t, supervisor.StateStopping, rt.Snapshot().Server("s").State)
}

func TestUnregisterLeavesNoState(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.script("bad", script{openErr: errScripted})
		for range 3 {
			h.register(mcpvisor.ServerSpec{Name: "fs"})
			require.NoError(t, h.rt.SetLogLevel(context.Background(), h.rt.Snapshot().Server("fs"), "debug"))
			require.NoError(t, h.rt.Unregister(context.Background(), "fs"))
			require.Error(t, h.rt.Register(context.Background(), mcpvisor.ServerSpec{Name: "bad"}))
		}
		h.register(mcpvisor.ServerSpec{Name: "fs"})
		h.crashSupervisor("fs")
		synctest.Wait()
		require.Empty(t, h.rt.managerState.registrations)
		h.rt.desired.Range(func(gen, _ any) bool {
			require.Fail(t, "desired state of an ended registration", "%v", gen)
			return true
		})
	})
}

// An Unregister of a server that is still starting ends its Register, also when the
// supervising actor crashes meanwhile.
func TestUnregisterEndsAWaitingRegister(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{openHangs: true, releaseAfter: 5 * time.Second})
		registered := make(chan error, 1)
		go func() { registered <- h.rt.Register(context.Background(), mcpvisor.ServerSpec{Name: "fs"}) }()
		synctest.Wait()
		go func() { _ = h.rt.Unregister(context.Background(), "fs") }()
		h.crashSupervisor("fs")
		require.ErrorIs(t, <-registered, mcpvisor.ErrClosed)
	})
}

// A manager may crash between a decision and the message about it. The next manager
// sends the message.
func TestNewManagerCarriesOutDecisions(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(mcpvisor.ServerSpec{Name: "fs"})
		reply := make(chan error, 1)
		h.supervisorOf("fs")
		h.rt.managerState.registrations["fs"].stopping, h.rt.managerState.registrations["fs"].unregister = true, []chan<- error{reply}
		h.crashManager()
		require.NoError(t, <-reply)
		require.Empty(t, h.rt.Snapshot().Names())

		h.register(mcpvisor.ServerSpec{Name: "fs"})
		unread := *h.rt.Snapshot().Server("fs") // the report that it is ready was the message being handled
		unread.State, unread.Catalog = supervisor.StateConnecting, nil
		h.rt.snapshot.Store(h.rt.Snapshot().withAll(map[string]*View{"fs": &unread}))
		h.crashManager()
		require.Equal(t, supervisor.StateReady, h.state("fs"))

		synctest.Wait()
		h.rt.managerState.closing = true
		h.crashManager()
		synctest.Wait()
		require.True(t, isClosed(h.rt.drained))
		require.Empty(t, h.rt.Snapshot().Names())
	})
}

// The caller whose message crashed the manager is answered, and so is a caller that
// waits for a restart which will not happen.
func TestManagerPanicAnswersWaitingCallers(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(mcpvisor.ServerSpec{Name: "fs"})
		reply := make(chan error, 1)
		h.rt.post(&report{name: "fs", gen: h.rt.Snapshot().Server("fs").Gen, replies: []chan<- error{reply}}) // without a view
		require.ErrorIs(t, <-reply, mcpvisor.ErrClosed)
		require.Equal(t, supervisor.StateReady, h.state("fs"))

		h.rt.managerState.registrations["fs"].restart = []chan<- error{reply}
		h.crashSupervisor("fs")
		require.ErrorIs(t, <-reply, mcpvisor.ErrClosed)
	})
}

// A reply counts, even if the context of the caller ends in the same moment.
func TestReplyWinsOverEndedContext(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		for range 100 {
			reply := make(chan error, 1)
			reply <- nil
			require.NoError(t, h.rt.awaitReply(over, "fs", reply, nil))
		}
		require.NoError(t, h.rt.Close(context.Background()))
		for range 100 {
			require.NoError(t, h.rt.Close(over))
		}
	})
}

func TestCloseInEachState(t *testing.T) {
	for _, c := range states() {
		runWithHarness(t, string(c.state), func(t *testing.T, h *harness) {
			c.reach(h)
			require.Equal(t, c.state, h.state("fs"))
			require.Equal(t, c.release, spends(func() { require.NoError(t, h.rt.Close(context.Background())) }))
			require.Empty(t, h.rt.Snapshot().Names())
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
		events := h.rt.Events().Watch(context.Background())
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
			_, _, err = h.rt.Request(context.Background(), v, callRequest(), 0)
			require.ErrorIs(t, err, mcpvisor.ErrUnavailable, "a view from before: nothing was sent")
			var list []mcpvisor.Event
			for e := range events {
				list = append(list, e)
			}
			require.Equal(t, mcpvisor.EventUnregistered, list[len(list)-1].Kind)
			_, open := <-h.rt.Events().Watch(context.Background())
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
		dead.State, dead.Catalog = supervisor.StateUnregistered, nil
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
		runWithHarness(t, string(c.state), func(t *testing.T, h *harness) {
			c.reach(h)
			require.Equal(t, c.state, h.state("fs"))
			require.Equal(t, c.release, spends(func() { require.NoError(t, h.rt.Unregister(context.Background(), "fs")) }))
			require.Empty(t, h.rt.Snapshot().Names())
			require.Len(t, h.sessions("fs"), c.dialled)
			time.Sleep(3 * time.Hour)
			require.Len(t, h.sessions("fs"), c.dialled, "and nothing comes after")
			require.ErrorIs(t, h.rt.Unregister(context.Background(), "fs"), mcpvisor.ErrUnknownServer)
		})
	}
}
