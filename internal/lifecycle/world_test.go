package lifecycle_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/lifecycle"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// world carries effects out. It knows no states and no policy. It keeps records of
// sessions, timers and what is visible, and rejects an effect that could not be carried
// out safely.
type world struct {
	t        require.TestingT
	sessions []*sessionRecord // sessions[i] is epoch i+1
	epoch    uint64           // the one in service
	timers   []*timer         // every one that was ever armed
	visible  uint64           // the epoch whose catalog users see; 0 none
}

// sessionRecord counts the inputs and effects of one epoch.
type sessionRecord struct {
	opened, discovered                                bool
	standby                                           bool // started beside the one in service, and never in service itself
	discover, publish, withdraw, endSession, released int
}

type timer struct {
	kind  lifecycle.EffectKind
	token uint64
	due   time.Time
	off   bool // fired or cancelled
}

func (w *world) current() uint64 { return w.epoch }

// addStandby records a standby that is ready.
func (w *world) addStandby(epoch uint64) {
	require.Equal(w.t, uint64(len(w.sessions))+1, epoch, "epochs count up")
	w.sessions = append(w.sessions, &sessionRecord{opened: true, discovered: true, standby: true})
}

// takeOver puts a standby in service.
func (w *world) takeOver(ev lifecycle.Input, e lifecycle.Effect) {
	require.Equal(w.t, lifecycle.InputDied, ev.Kind)
	require.Equal(w.t, ev.Standby, e.Epoch)
	old, s := w.sessions[w.epoch-1], w.sessions[e.Epoch-1]
	require.True(w.t, s.standby, "a standby takes over twice")
	require.Equal(w.t, 1, old.endSession, "two are in service")
	old.released = 1 // the supervising actor waits for its release
	s.standby, w.epoch = false, e.Epoch
}

func (w *world) armed() *timer {
	for _, t := range w.timers {
		if !t.off {
			return t
		}
	}
	return nil
}

// stale reports whether an input is out of date, by the records of the world.
func (w *world) stale(ev lifecycle.Input) bool {
	switch ev.Kind {
	case lifecycle.InputTimer:
		a := w.armed()
		return a == nil || a.token != ev.Token
	case lifecycle.InputRegister, lifecycle.InputRestart, lifecycle.InputFence, lifecycle.InputStop:
		return false
	default:
	}
	return ev.Epoch != w.current()
}

// happens records an input that is not stale.
func (w *world) happens(ev lifecycle.Input) {
	if ev.Kind == lifecycle.InputTimer {
		w.armed().off = true
		return
	}
	if ev.Epoch == 0 || ev.Epoch != w.current() {
		return
	}
	s := w.sessions[ev.Epoch-1]
	switch {
	case ev.Kind == lifecycle.InputOpened && s.endSession == 0:
		s.opened = true
	case ev.Kind == lifecycle.InputDiscovered && s.discover > 0 && s.endSession == 0:
		s.discovered = true
	case ev.Kind == lifecycle.InputReleased && s.endSession > 0:
		s.released = 1
	}
}

// carryOut records the effects of one input, in order.
func (w *world) carryOut(now time.Time, ev lifecycle.Input, effects []lifecycle.Effect, delay func(lifecycle.EffectKind) time.Duration) {
	for _, e := range effects {
		if e.Kind == lifecycle.EffectDial {
			w.dial(e)
			continue
		}
		if e.Kind == lifecycle.EffectTakeOver {
			w.takeOver(ev, e)
			continue
		}
		require.Equal(w.t, w.current(), e.Epoch, "%s of another epoch", e.Kind)
		switch e.Kind {
		case lifecycle.EffectArmRetry, lifecycle.EffectArmPark, lifecycle.EffectArmStable:
			w.arm(now, e, delay(e.Kind))
		case lifecycle.EffectCancelTimer:
			w.cancel(e)
		case lifecycle.EffectAnnounceGone:
			require.NotNil(w.t, e.Cause, "gone without a cause")
		case lifecycle.EffectResetBudget:
		default:
			w.session(ev, e)
		}
	}
}

func (w *world) dial(e lifecycle.Effect) {
	require.Equal(w.t, uint64(len(w.sessions))+1, e.Epoch, "epochs count up, one dial each")
	for i, s := range w.sessions {
		if s.standby {
			continue
		}
		require.Equal(w.t, 1, s.released, "dial of %d while %d is not released", e.Epoch, i+1)
	}
	require.Zero(w.t, w.visible, "dial while a catalog is visible")
	require.Nil(w.t, w.armed(), "dial while a timer is armed")
	w.sessions = append(w.sessions, &sessionRecord{})
	w.epoch = e.Epoch
}

func (w *world) arm(now time.Time, e lifecycle.Effect, want time.Duration) {
	require.Nil(w.t, w.armed(), "two timers")
	for _, t := range w.timers {
		require.Greater(w.t, e.Token, t.token, "a token is used again")
	}
	require.Equal(w.t, want, e.Delay, "%s", e.Kind)
	w.timers = append(w.timers, &timer{kind: e.Kind, token: e.Token, due: now.Add(e.Delay)})
}

func (w *world) cancel(e lifecycle.Effect) {
	a := w.armed()
	if a == nil {
		require.Zero(w.t, e.Token, "a timer is cancelled that is not armed")
		return
	}
	require.Equal(w.t, a.token, e.Token, "the wrong timer is cancelled")
	a.off = true
}

func (w *world) session(ev lifecycle.Input, e lifecycle.Effect) {
	s := w.sessions[e.Epoch-1]
	switch e.Kind {
	case lifecycle.EffectDiscover:
		require.True(w.t, s.opened, "discovery on a session that is not open")
		s.discover++
	case lifecycle.EffectPublish:
		require.True(w.t, s.discovered, "publish without a catalog")
		if ev.Kind != lifecycle.InputDied {
			require.Equal(w.t, lifecycle.InputDiscovered, ev.Kind)
			require.Equal(w.t, e.Epoch, ev.Epoch, "the catalog of another epoch")
		}
		require.Zero(w.t, w.visible, "two catalogs visible")
		s.publish++
		w.visible = e.Epoch
	case lifecycle.EffectWithdraw:
		require.Equal(w.t, e.Epoch, w.visible, "withdraw of what is not visible")
		s.withdraw++
		w.visible = 0
	case lifecycle.EffectEndSession:
		require.Zero(w.t, w.visible, "session ended before withdraw")
		require.NotNil(w.t, e.Cause, "session ended without a cause")
		if ev.Cause != nil {
			require.Same(w.t, ev.Cause, e.Cause)
		}
		s.endSession++
	default:
		require.Fail(w.t, "unknown effect", "%q", e.Kind)
	}
}

// verify compares the records with the state that the lifecycle reports.
func (w *world) verify(lc *lifecycle.Lifecycle, stable bool) {
	state := lc.State()
	require.Equal(w.t, w.current(), lc.Epoch())
	used := 0
	for i, s := range w.sessions {
		if s.standby {
			require.Zero(w.t, s.endSession+s.publish+s.discover, "a standby is not the lifecycle's business")
			continue
		}
		used++
		last := uint64(i+1) == w.epoch
		over := !last || state == supervisor.StateClosing || state == supervisor.StateStopping || !live(state)
		require.Equal(w.t, over, s.endSession == 1, "epoch %d is ended %d times in %s", i+1, s.endSession, state)
		require.Equal(w.t, !last || !live(state), s.released == 1, "epoch %d released in %s", i+1, state)
		require.LessOrEqual(w.t, s.discover, 1)
		require.LessOrEqual(w.t, s.publish, 1)
		require.Equal(w.t, last && state == supervisor.StateReady, s.publish > s.withdraw, "epoch %d published in %s", i+1, state)
	}
	require.Equal(w.t, max(used-1, 0), lc.Restarts())
	require.Equal(w.t, state == supervisor.StateReady, w.visible != 0, "visible in %s", state)

	want := map[supervisor.State]lifecycle.EffectKind{supervisor.StateBackoff: lifecycle.EffectArmRetry, supervisor.StateParked: lifecycle.EffectArmPark, supervisor.StateReady: lifecycle.EffectArmStable}[state]
	if stable && state == supervisor.StateReady {
		want = ""
	}
	a := w.armed()
	require.Equal(w.t, want != "", a != nil, "a timer in %s", state)
	due := time.Time{}
	if a != nil {
		require.Equal(w.t, want, a.kind)
		if state != supervisor.StateReady {
			due = a.due
		}
	}
	require.Equal(w.t, due, lc.RetryAt())
}

// live reports whether a state has a session that must be released before the next dial.
func live(s supervisor.State) bool {
	switch s {
	case supervisor.StateConnecting, supervisor.StateDiscovering, supervisor.StateReady, supervisor.StateClosing, supervisor.StateStopping:
		return true
	default:
	}
	return false
}
