package supervisor_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// ledger is the world that carries effects out. It knows no states and no
// policy; it keeps accounts of sessions, timers and what is visible, and
// objects to whatever no world could carry out safely.
type ledger struct {
	t        require.TestingT
	sessions []*account // sessions[i] is epoch i+1
	epoch    uint64     // the one in charge
	timers   []*timer   // every one that was ever armed
	visible  uint64     // the epoch whose catalog users see; 0 none
}

// account counts what was asked and told of one epoch.
type account struct {
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

func (l *ledger) current() uint64 { return l.epoch }

// reserve books a standby that is ready.
func (l *ledger) reserve(epoch uint64) {
	require.Equal(l.t, uint64(len(l.sessions))+1, epoch, "epochs count up")
	l.sessions = append(l.sessions, &account{opened: true, discovered: true, spare: true})
}

// takeOver puts a standby in charge.
func (l *ledger) takeOver(ev supervisor.Input, e supervisor.Effect) {
	require.Equal(l.t, supervisor.InputDied, ev.Kind)
	require.Equal(l.t, ev.Spare, e.Epoch)
	old, s := l.sessions[l.epoch-1], l.sessions[e.Epoch-1]
	require.True(l.t, s.spare, "a standby takes over twice")
	require.Equal(l.t, 1, old.reap, "two are in charge")
	old.end = 1 // whoever carries the effects out waits for it
	s.spare, l.epoch = false, e.Epoch
}

func (l *ledger) armed() *timer {
	for _, t := range l.timers {
		if !t.off {
			return t
		}
	}
	return nil
}

// stale is the world's own view of whether an event is out of date.
func (l *ledger) stale(ev supervisor.Input) bool {
	switch ev.Kind {
	case supervisor.InputTimer:
		a := l.armed()
		return a == nil || a.token != ev.Token
	case supervisor.InputRegister, supervisor.InputRestart, supervisor.InputStop:
		return false
	}
	return ev.Epoch != l.current()
}

// happens books an event that is not stale.
func (l *ledger) happens(ev supervisor.Input) {
	if ev.Kind == supervisor.InputTimer {
		l.armed().off = true
		return
	}
	if ev.Epoch == 0 || ev.Epoch != l.current() {
		return
	}
	s := l.sessions[ev.Epoch-1]
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
func (l *ledger) carryOut(now time.Time, ev supervisor.Input, effects []supervisor.Effect, delay func(supervisor.EffectKind) time.Duration) {
	for _, e := range effects {
		if e.Kind == supervisor.EffectDial {
			l.dial(e)
			continue
		}
		if e.Kind == supervisor.EffectTakeOver {
			l.takeOver(ev, e)
			continue
		}
		require.Equal(l.t, l.current(), e.Epoch, "%s of another epoch", e.Kind)
		switch e.Kind {
		case supervisor.EffectArmRetry, supervisor.EffectArmPark, supervisor.EffectArmStable:
			l.arm(now, e, delay(e.Kind))
		case supervisor.EffectCancelTimer:
			l.cancel(e)
		case supervisor.EffectAnnounceGone:
			require.NotNil(l.t, e.Cause, "gone without a cause")
		case supervisor.EffectResetBudget:
		default:
			l.session(ev, e)
		}
	}
}

func (l *ledger) dial(e supervisor.Effect) {
	require.Equal(l.t, uint64(len(l.sessions))+1, e.Epoch, "epochs count up, one dial each")
	for i, s := range l.sessions {
		if s.spare {
			continue
		}
		require.Equal(l.t, 1, s.end, "dial of %d while %d is not released", e.Epoch, i+1)
	}
	require.Zero(l.t, l.visible, "dial while a catalog is visible")
	require.Nil(l.t, l.armed(), "dial while a timer is armed")
	l.sessions = append(l.sessions, &account{})
	l.epoch = e.Epoch
}

func (l *ledger) arm(now time.Time, e supervisor.Effect, want time.Duration) {
	require.Nil(l.t, l.armed(), "two timers")
	for _, t := range l.timers {
		require.Greater(l.t, e.Token, t.token, "a token is used again")
	}
	require.Equal(l.t, want, e.Delay, "%s", e.Kind)
	l.timers = append(l.timers, &timer{kind: e.Kind, token: e.Token, due: now.Add(e.Delay)})
}

func (l *ledger) cancel(e supervisor.Effect) {
	a := l.armed()
	if a == nil {
		require.Zero(l.t, e.Token, "a timer is cancelled that is not armed")
		return
	}
	require.Equal(l.t, a.token, e.Token, "the wrong timer is cancelled")
	a.off = true
}

func (l *ledger) session(ev supervisor.Input, e supervisor.Effect) {
	s := l.sessions[e.Epoch-1]
	switch e.Kind {
	case supervisor.EffectDiscover:
		require.True(l.t, s.opened, "discovery on a session that is not open")
		s.discover++
	case supervisor.EffectPublish:
		require.True(l.t, s.discovered, "publish without a catalog")
		if ev.Kind != supervisor.InputDied {
			require.Equal(l.t, supervisor.InputDiscovered, ev.Kind)
			require.Equal(l.t, e.Epoch, ev.Epoch, "the catalog of another epoch")
		}
		require.Zero(l.t, l.visible, "two catalogs visible")
		s.publish++
		l.visible = e.Epoch
	case supervisor.EffectWithdraw:
		require.Equal(l.t, e.Epoch, l.visible, "withdraw of what is not visible")
		s.withdraw++
		l.visible = 0
	case supervisor.EffectEndSession:
		require.Zero(l.t, l.visible, "reap before withdraw")
		require.NotNil(l.t, e.Cause, "reap without a cause")
		if ev.Cause != nil {
			require.Same(l.t, ev.Cause, e.Cause)
		}
		s.reap++
	default:
		require.Fail(l.t, "unknown effect", "%q", e.Kind)
	}
}

// audit holds the accounts against the state that the lifecycle reports.
func (l *ledger) audit(lc *supervisor.Lifecycle, proven bool) {
	state := lc.State()
	require.Equal(l.t, l.current(), lc.Epoch())
	used := 0
	for i, s := range l.sessions {
		if s.spare {
			require.Zero(l.t, s.reap+s.publish+s.discover, "a standby is not the lifecycle's business")
			continue
		}
		used++
		last := uint64(i+1) == l.epoch
		over := !last || state == supervisor.StateClosing || state == supervisor.StateStopping || !state.Live()
		require.Equal(l.t, over, s.reap == 1, "epoch %d is reaped %d times in %s", i+1, s.reap, state)
		require.Equal(l.t, !last || !state.Live(), s.end == 1, "epoch %d released in %s", i+1, state)
		require.LessOrEqual(l.t, s.discover, 1)
		require.LessOrEqual(l.t, s.publish, 1)
		require.Equal(l.t, last && state == supervisor.StateReady, s.publish > s.withdraw, "epoch %d published in %s", i+1, state)
	}
	require.Equal(l.t, max(used-1, 0), lc.Restarts())
	require.Equal(l.t, state == supervisor.StateReady, l.visible != 0, "visible in %s", state)

	want := map[supervisor.State]supervisor.EffectKind{supervisor.StateBackoff: supervisor.EffectArmRetry, supervisor.StateParked: supervisor.EffectArmPark, supervisor.StateReady: supervisor.EffectArmStable}[state]
	if proven && state == supervisor.StateReady {
		want = ""
	}
	a := l.armed()
	require.Equal(l.t, want != "", a != nil, "a timer in %s", state)
	due := time.Time{}
	if a != nil {
		require.Equal(l.t, want, a.kind)
		if state != supervisor.StateReady {
			due = a.due
		}
	}
	require.Equal(l.t, due, lc.RetryAt())
}
