package supervisor_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// world is the world that carries effects out. It knows no states and no
// policy; it keeps accounts of sessions, timers and what is visible, and
// objects to whatever no world could carry out safely.
type world struct {
	t        require.TestingT
	sessions []*sessionRecord // sessions[i] is epoch i+1
	epoch    uint64           // the one in charge
	timers   []*timer         // every one that was ever armed
	visible  uint64           // the epoch whose catalog users see; 0 none
}

// sessionRecord counts what was asked and told of one epoch.
type sessionRecord struct {
	opened, discovered                     bool
	spare                                  bool // started beside the one in charge, and never in charge itself
	discover, publish, withdraw, reap, end int
}

type timer struct {
	kind  supervisor.EffectKind
	token uint64
	due   time.Time
	off   bool // fired or cancelled
}

func (w *world) current() uint64 { return w.epoch }

// reserve books a standby that is ready.
func (w *world) addStandby(epoch uint64) {
	require.Equal(w.t, uint64(len(w.sessions))+1, epoch, "epochs count up")
	w.sessions = append(w.sessions, &sessionRecord{opened: true, discovered: true, spare: true})
}

// takeOver puts a standby in charge.
func (w *world) takeOver(ev supervisor.Input, e supervisor.Effect) {
	require.Equal(w.t, supervisor.InputDied, ev.Kind)
	require.Equal(w.t, ev.Standby, e.Epoch)
	old, s := w.sessions[w.epoch-1], w.sessions[e.Epoch-1]
	require.True(w.t, s.spare, "a standby takes over twice")
	require.Equal(w.t, 1, old.reap, "two are in charge")
	old.end = 1 // whoever carries the effects out waits for it
	s.spare, w.epoch = false, e.Epoch
}

func (w *world) armed() *timer {
	for _, t := range w.timers {
		if !t.off {
			return t
		}
	}
	return nil
}

// stale is the world's own view of whether an event is out of date.
func (w *world) stale(ev supervisor.Input) bool {
	switch ev.Kind {
	case supervisor.InputTimer:
		a := w.armed()
		return a == nil || a.token != ev.Token
	case supervisor.InputRegister, supervisor.InputRestart, supervisor.InputStop:
		return false
	}
	return ev.Epoch != w.current()
}

// happens books an event that is not stale.
func (w *world) happens(ev supervisor.Input) {
	if ev.Kind == supervisor.InputTimer {
		w.armed().off = true
		return
	}
	if ev.Epoch == 0 || ev.Epoch != w.current() {
		return
	}
	s := w.sessions[ev.Epoch-1]
	switch {
	case ev.Kind == supervisor.InputOpened && s.reap == 0:
		s.opened = true
	case ev.Kind == supervisor.InputDiscovered && s.discover > 0 && s.reap == 0:
		s.discovered = true
	case ev.Kind == supervisor.InputReleased && s.reap > 0:
		s.end = 1
	}
}

// carryOut books the effects of one event, in order.
func (w *world) carryOut(now time.Time, ev supervisor.Input, effects []supervisor.Effect, delay func(supervisor.EffectKind) time.Duration) {
	for _, e := range effects {
		if e.Kind == supervisor.EffectDial {
			w.dial(e)
			continue
		}
		if e.Kind == supervisor.EffectTakeOver {
			w.takeOver(ev, e)
			continue
		}
		require.Equal(w.t, w.current(), e.Epoch, "%s of another epoch", e.Kind)
		switch e.Kind {
		case supervisor.EffectArmRetry, supervisor.EffectArmPark, supervisor.EffectArmStable:
			w.arm(now, e, delay(e.Kind))
		case supervisor.EffectCancelTimer:
			w.cancel(e)
		case supervisor.EffectAnnounceGone:
			require.NotNil(w.t, e.Cause, "gone without a cause")
		case supervisor.EffectResetBudget:
		default:
			w.session(ev, e)
		}
	}
}

func (w *world) dial(e supervisor.Effect) {
	require.Equal(w.t, uint64(len(w.sessions))+1, e.Epoch, "epochs count up, one dial each")
	for i, s := range w.sessions {
		if s.spare {
			continue
		}
		require.Equal(w.t, 1, s.end, "dial of %d while %d is not released", e.Epoch, i+1)
	}
	require.Zero(w.t, w.visible, "dial while a catalog is visible")
	require.Nil(w.t, w.armed(), "dial while a timer is armed")
	w.sessions = append(w.sessions, &sessionRecord{})
	w.epoch = e.Epoch
}

func (w *world) arm(now time.Time, e supervisor.Effect, want time.Duration) {
	require.Nil(w.t, w.armed(), "two timers")
	for _, t := range w.timers {
		require.Greater(w.t, e.Token, t.token, "a token is used again")
	}
	require.Equal(w.t, want, e.Delay, "%s", e.Kind)
	w.timers = append(w.timers, &timer{kind: e.Kind, token: e.Token, due: now.Add(e.Delay)})
}

func (w *world) cancel(e supervisor.Effect) {
	a := w.armed()
	if a == nil {
		require.Zero(w.t, e.Token, "a timer is cancelled that is not armed")
		return
	}
	require.Equal(w.t, a.token, e.Token, "the wrong timer is cancelled")
	a.off = true
}

func (w *world) session(ev supervisor.Input, e supervisor.Effect) {
	s := w.sessions[e.Epoch-1]
	switch e.Kind {
	case supervisor.EffectDiscover:
		require.True(w.t, s.opened, "discovery on a session that is not open")
		s.discover++
	case supervisor.EffectPublish:
		require.True(w.t, s.discovered, "publish without a catalog")
		if ev.Kind != supervisor.InputDied {
			require.Equal(w.t, supervisor.InputDiscovered, ev.Kind)
			require.Equal(w.t, e.Epoch, ev.Epoch, "the catalog of another epoch")
		}
		require.Zero(w.t, w.visible, "two catalogs visible")
		s.publish++
		w.visible = e.Epoch
	case supervisor.EffectWithdraw:
		require.Equal(w.t, e.Epoch, w.visible, "withdraw of what is not visible")
		s.withdraw++
		w.visible = 0
	case supervisor.EffectEndSession:
		require.Zero(w.t, w.visible, "reap before withdraw")
		require.NotNil(w.t, e.Cause, "reap without a cause")
		if ev.Cause != nil {
			require.Same(w.t, ev.Cause, e.Cause)
		}
		s.reap++
	default:
		require.Fail(w.t, "unknown effect", "%q", e.Kind)
	}
}

// audit holds the accounts against the state that the lifecycle reports.
func (w *world) audit(lc *supervisor.Lifecycle, proven bool) {
	state := lc.State()
	require.Equal(w.t, w.current(), lc.Epoch())
	used := 0
	for i, s := range w.sessions {
		if s.spare {
			require.Zero(w.t, s.reap+s.publish+s.discover, "a standby is not the lifecycle's business")
			continue
		}
		used++
		last := uint64(i+1) == w.epoch
		over := !last || state == supervisor.StateClosing || state == supervisor.StateStopping || !state.Live()
		require.Equal(w.t, over, s.reap == 1, "epoch %d is reaped %d times in %s", i+1, s.reap, state)
		require.Equal(w.t, !last || !state.Live(), s.end == 1, "epoch %d released in %s", i+1, state)
		require.LessOrEqual(w.t, s.discover, 1)
		require.LessOrEqual(w.t, s.publish, 1)
		require.Equal(w.t, last && state == supervisor.StateReady, s.publish > s.withdraw, "epoch %d published in %s", i+1, state)
	}
	require.Equal(w.t, max(used-1, 0), lc.Restarts())
	require.Equal(w.t, state == supervisor.StateReady, w.visible != 0, "visible in %s", state)

	want := map[supervisor.State]supervisor.EffectKind{supervisor.StateBackoff: supervisor.EffectArmRetry, supervisor.StateParked: supervisor.EffectArmPark, supervisor.StateReady: supervisor.EffectArmStable}[state]
	if proven && state == supervisor.StateReady {
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
