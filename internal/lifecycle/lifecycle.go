package lifecycle

import (
	"math/rand/v2"
	"sort"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Lifecycle is the state machine of one registration: feed it inputs with
// [Lifecycle.Step], and carry out the effects. It is not safe for concurrent use; the
// supervising actor owns it.
type Lifecycle struct {
	// Set once.
	policy     supervisor.Policy
	supervised bool // the policy applies to the first start, too; or a caller no longer waits for that
	random     func() float64

	// Transient is the restart type of OTP: a process that exits with 0 while it is ready and no call is in
	// flight has done its work. That is no failure: the server rests until it is wanted. Set it before the first input.
	Transient bool

	state     supervisor.State
	since     time.Time // when state was entered
	epoch     uint64    // of the current incarnation
	lastEpoch uint64    // the highest that NextEpoch gave out
	dialled   bool      // there was a first dial
	everReady bool
	restarts  int

	// The budget. attempt is how much of MaxAttempts is spent. ends are the recent ends
	// for the restart intensity; tooMany: they exceed it.
	attempt int
	ends    Window
	tooMany bool

	// What the operator, the users and the group of the server want. [Lifecycle.setFlags] writes them.
	halted   bool // stopped by the operator
	unwanted bool // nothing wants the server
	rested   bool // exited after its work, and not wanted since
	held     bool // by the group
	grouped  bool // in a group: when the server ends, it is held, so that each start asks the group
	givenUp  bool // by the group; no longer when it starts again
	planned  bool // the session was ended as planned
	failures uint64

	restartRequested bool              // dial when the session is released
	fenced           bool              // no further session is started
	cause            *supervisor.Cause // why the last session ended; nil if none has
	stopCause        *supervisor.Cause // why the registration ends; nil before InputStop

	lastToken uint64
	armed     uint64 // token of the armed timer; 0: no timer is armed
	due       time.Time

	stale uint64
}

// NewLifecycle makes a lifecycle in state [StateNew]. supervised says whether a
// first start that fails is retried by the policy (true) or ends the
// registration (false). random yields numbers in [0, 1) for jitter; nil means
// math/rand.
func NewLifecycle(p supervisor.Policy, supervised bool, random func() float64) *Lifecycle {
	if random == nil {
		random = rand.Float64
	}
	if p.Intensity.Restarts <= 0 { // which means any number, and for a Window none
		p.Intensity.Window = 0
	}
	return &Lifecycle{policy: p, supervised: supervised, random: random}
}

// State is the current state of the server.
func (l *Lifecycle) State() supervisor.State { return l.state }

// Since is when the current state was entered.
func (l *Lifecycle) Since() time.Time { return l.since }

// Epoch is the number of the current incarnation; the first is 1.
func (l *Lifecycle) Epoch() uint64 { return l.epoch }

// NextEpoch gives out the number of an incarnation that is started beside the
// current one, as a standby.
func (l *Lifecycle) NextEpoch() uint64 {
	l.lastEpoch++
	return l.lastEpoch
}

// Attempt is how many attempts of the budget are spent since it was reset. A stable session
// and Restart reset it.
func (l *Lifecycle) Attempt() int { return l.attempt }

// Restarts counts every dial after the first, and every takeover by a standby.
func (l *Lifecycle) Restarts() int { return l.restarts }

// Cause is why the last session ended, nil if none has. A session that was
// stopped or restarted on request ended for that reason.
func (l *Lifecycle) Cause() *supervisor.Cause { return l.cause }

// RetryAt is when the next dial is due; the zero time if none is planned.
func (l *Lifecycle) RetryAt() time.Time {
	if l.state == supervisor.StateBackoff || l.state == supervisor.StateParked {
		return l.due
	}
	return time.Time{}
}

// Stale counts inputs that were dropped because they were about another epoch or timer
// than the current one.
func (l *Lifecycle) Stale() uint64 { return l.stale }

// Fenced reports whether InputFence has come: no further session is started.
func (l *Lifecycle) Fenced() bool { return l.fenced }

// MayTakeOver reports whether the policy lets a standby take over if the session
// ended at time now.
func (l *Lifecycle) MayTakeOver(now time.Time) bool {
	return l.budgetLeft() && !l.ends.full(now, l.policy.Intensity)
}

// Held reports whether the group of the server holds it.
func (l *Lifecycle) Held() bool { return l.held }

// Grouped reports whether the server is in a group.
func (l *Lifecycle) Grouped() bool { return l.grouped }

// Halted reports whether the operator has stopped the server.
func (l *Lifecycle) Halted() bool { return l.halted }

// Rested reports whether the server has exited after its work, and was not wanted since.
func (l *Lifecycle) Rested() bool { return l.rested }

// Failures counts the incarnations that ended by themselves, and the starts that failed. It does not count the first
// start of a server that is not supervised from the start, planned ends, the exit of a transient server after its work,
// limits of the host, and incarnations whose standby took over.
func (l *Lifecycle) Failures() uint64 { return l.failures }

// Step takes one input at time now and returns the effects that the caller must carry
// out, in order. A stale input, and an input without a row in the current state, return
// nil.
func (l *Lifecycle) Step(now time.Time, in Input) []Effect {
	if l.isStale(in) {
		l.stale++
		return nil
	}
	in.Cause = in.causeOrDefault()
	l.setFlags(in)
	for i := range table {
		if t := &table[i]; t.From == l.state && t.On == in.Kind && l.holds(now, t.When, in) {
			return l.apply(now, t, in)
		}
	}
	return nil
}

func (l *Lifecycle) isStale(in Input) bool {
	switch in.Kind {
	case InputOpened, InputDiscovered, InputFailed, InputDied, InputReleased:
		return in.Epoch != l.epoch
	case InputTimer:
		return in.Token == 0 || in.Token != l.armed
	default:
	}
	return false
}

// setFlags sets what an input says about the wishes of operator, users and group, in every state. A fence
// overrides them all.
func (l *Lifecycle) setFlags(in Input) {
	switch in.Kind {
	case InputHalt:
		l.halted = true
	case InputStart:
		l.revive()
		l.halted, l.unwanted, l.rested = false, false, false
	case InputUnwanted:
		l.unwanted = true
		if l.restartRequested { // the session is being released for a restart that is not wanted now
			l.restartRequested, l.planned = false, true
		}
	case InputWanted, InputRestart:
		l.unwanted, l.rested = false, false
	case InputHold:
		l.held, l.grouped = true, true
	case InputGiveUp: // perhaps the first order of its group
		l.grouped = true
	case InputClear, InputRenew:
		l.grouped = !in.Leave
		l.held = l.grouped && l.atRest()
		if in.Kind == InputRenew && l.givenUp {
			l.revive()
		}
	default:
	}
}

// revive lets a session that is being released, because the server was halted or given up, be followed by a
// fresh start.
func (l *Lifecycle) revive() {
	if l.state == supervisor.StateClosing && !l.fenced && (l.halted || l.givenUp) {
		l.restartRequested = true
	}
	l.givenUp = false
}

// atRest reports whether the server has no session as planned, and starts only when it is wanted or the operator starts it.
func (l *Lifecycle) atRest() bool {
	return l.state == supervisor.StateStopped || l.state == supervisor.StateAsleep || l.state == supervisor.StateResting
}

// Finished reports whether a process has exited with 0 by itself. cause may be nil.
func Finished(cause *supervisor.Cause) bool {
	return cause != nil && cause.Kind == supervisor.CauseExit && cause.ExitCode != nil && *cause.ExitCode == 0
}

func (l *Lifecycle) holds(now time.Time, g Guard, in Input) bool {
	switch g {
	case GuardRestartRequested:
		return l.restartRequested
	case GuardFenced:
		return l.fenced
	case GuardFinished:
		return l.Transient && !in.Busy && Finished(in.Cause)
	case GuardHalted:
		return l.halted && !l.fenced
	case GuardGivenUp:
		return l.givenUp && !l.fenced
	case GuardRested:
		return l.rested
	case GuardUnwanted:
		return l.unwanted
	case GuardHeld:
		return l.held
	case GuardRestartHeld:
		return l.restartRequested && l.held
	case GuardRestartUnwanted:
		return l.restartRequested && l.unwanted
	case GuardPlannedUnwanted:
		return l.planned && l.unwanted
	case GuardPlannedHeld:
		return l.planned && l.held
	case GuardPlanned:
		return l.planned
	case GuardFirstStart:
		return l.isFirstStart()
	case GuardAuthRequired:
		return l.cause != nil && l.cause.Permanent && l.cause.Kind == supervisor.CauseAuth
	case GuardPermanent:
		return l.cause != nil && l.cause.Permanent
	case GuardHost:
		return l.cause != nil && l.cause.Host && l.policy.MaxAttempts != 0
	case GuardBudgetLeft:
		return l.budgetLeft() && !l.tooMany
	case GuardStandbyReady: // this end is not counted yet
		return in.Standby != 0 && !in.Cause.Permanent && l.MayTakeOver(now)
	case GuardMayPark:
		return l.policy.ParkEvery > 0
	default:
	}
	return true
}

// isFirstStart reports whether the caller that registered the server waits for its first start.
func (l *Lifecycle) isFirstStart() bool { return !l.everReady && !l.supervised }

func (l *Lifecycle) budgetLeft() bool {
	return l.policy.MaxAttempts == supervisor.Unlimited || l.attempt < l.policy.MaxAttempts
}

// apply takes one row: first it updates the counters and causes, then the state, then it
// makes the effects. Nothing else changes a field.
func (l *Lifecycle) apply(now time.Time, t *Transition, in Input) []Effect {
	switch in.Kind {
	case InputFailed, InputDied:
		switch {
		case t.When == GuardFinished:
			l.rested, l.planned = true, true
			in.Cause = in.Cause.Clone()
			in.Cause.Kind, in.Cause.Message = supervisor.CauseRequested, "the server has done its work: "+in.Cause.Error()+"; it starts when it is wanted"
		case !in.Cause.Host:
			l.tooMany = l.ends.Exceeded(now, l.policy.Intensity)
			if t.To == supervisor.StateClosing && !l.isFirstStart() {
				l.failures++
			}
		}
	case InputRestart:
		l.restartRequested = t.To == supervisor.StateClosing && !l.fenced && !l.halted
		l.givenUp = l.givenUp && !l.restartRequested
	case InputFence:
		l.restartRequested, l.planned, l.rested = false, false, false
		if !l.fenced {
			l.fenced, l.cause = true, in.Cause
		}
	case InputHalt, InputGiveUp:
		l.restartRequested = false
		ends := in.Kind == InputGiveUp && l.isFirstStart() // and the registration with it, as a start that fails
		l.givenUp = l.givenUp || in.Kind == InputGiveUp && !ends
		if !l.fenced {
			l.cause, l.planned = in.Cause, !ends
		}
	case InputUnwanted, InputHold:
		l.planned = true
	case InputStop:
		l.stopCause = in.Cause
	case InputTimer:
		l.armed = 0
	default:
	}
	if t.To != l.state {
		l.state, l.since = t.To, now
	}
	if t.To == supervisor.StateReady {
		l.everReady = true
	}
	if l.grouped && (l.atRest() || t.To == supervisor.StateClosing) {
		l.held = true
	}
	l.supervised = l.supervised || l.atRest() // the caller that registered the server has its answer
	effects := make([]Effect, 0, len(t.Do))
	for _, kind := range t.Do {
		effects = append(effects, l.effect(now, kind, t, in))
	}
	return effects
}

func (l *Lifecycle) effect(now time.Time, kind EffectKind, t *Transition, in Input) Effect {
	e := Effect{Kind: kind}
	switch kind {
	case EffectDial:
		l.epoch = l.NextEpoch()
		if l.dialled {
			l.restarts++
		}
		l.dialled = true
		l.restartRequested, l.givenUp, l.planned = false, false, false
	case EffectTakeOver:
		l.epoch = in.Standby
		l.restarts++
		l.attempt++
	case EffectWithdraw:
		e.Cause = in.Cause
	case EffectEndSession:
		e.Cause, l.cause = in.Cause, in.Cause
	case EffectAnnounceGone:
		if e.Cause = l.cause; l.stopCause != nil {
			e.Cause = l.stopCause
		}
		if e.Cause == nil { // it was never started
			why := map[bool]InputKind{true: InputHalt, false: InputUnwanted}[l.halted]
			e.Cause = Input{Kind: why}.causeOrDefault()
		}
	case EffectArmRetry: // a session has ended, and so there is a cause
		l.attempt++
		e.Delay = max(l.policy.Delay(l.attempt, l.random()), l.cause.RetryAfter)
	case EffectArmPark:
		if e.Delay = max(l.policy.ParkEvery, l.cause.RetryAfter); l.cause.Host {
			e.Delay = HostPause
		}
	case EffectArmStable:
		e.Delay = stableAfter(l.policy)
	case EffectCancelTimer:
		e.Token, l.armed = l.armed, 0
	case EffectResetBudget:
		l.resetBudget(t.From != supervisor.StateReady)
	default:
	}
	switch kind {
	case EffectArmRetry, EffectArmPark, EffectArmStable:
		l.lastToken++
		l.armed, l.due = l.lastToken, now.Add(e.Delay)
		e.Token = l.armed
	default:
	}
	e.Epoch = l.epoch
	return e
}

// HostPause is the wait before another start after a limit of the host.
const HostPause = 5 * time.Second

// resetBudget allows all attempts again. A restart on request also resets the restart
// intensity; a session that became stable does not.
func (l *Lifecycle) resetBudget(requested bool) {
	l.attempt = 0
	if requested {
		l.tooMany = false
		l.ends = Window{}
	}
}

// stableAfter is how long a session must stay ready before the budget is reset.
func stableAfter(p supervisor.Policy) time.Duration {
	if p.StableAfter > 0 {
		return p.StableAfter
	}
	return defaults.StableAfter
}

// Window counts ends within a sliding window of time, as OTP's supervisor does for its restart intensity.
type Window struct{ ends []time.Time } // oldest first

// inside returns the ends that are within i.Window.
func (w *Window) inside(now time.Time, i supervisor.Intensity) []time.Time {
	return w.ends[sort.Search(len(w.ends), func(n int) bool { return now.Sub(w.ends[n]) < i.Window }):]
}

// Exceeded records an end at now and reports whether there are now more of them within i.Window than i.Restarts. No window
// is no bound.
func (w *Window) Exceeded(now time.Time, i supervisor.Intensity) bool {
	if i.Window <= 0 {
		return false
	}
	kept := w.inside(now, i)
	kept = kept[max(len(kept)-i.Restarts, 0):] // one more than allowed decides; older ones are not needed
	w.ends = append(append(w.ends[:0], kept...), now)
	return len(w.ends) > i.Restarts
}

// full reports whether one more end, at now, would be too many.
func (w *Window) full(now time.Time, i supervisor.Intensity) bool {
	return i.Window > 0 && len(w.inside(now, i)) >= i.Restarts
}
