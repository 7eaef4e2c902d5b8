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
