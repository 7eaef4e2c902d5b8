package supervisor

import (
	"math/rand/v2"
	"time"
)

// Lifecycle is the state of one registration. It is a value machine: feed it
// events with [Lifecycle.Step], carry out the effects. It is not safe for
// concurrent use; one actor owns it.
type Lifecycle struct {
	policy     Policy
	supervised bool
	random     func() float64

	state     State
	since     time.Time
	epoch     uint64
	lastEpoch uint64 // the highest that was given out
	attempt   int
	restarts  int
	dialled   bool
	everReady bool
	spent     bool // the restart intensity was exceeded, or trying at once is in vain
	asked     bool // EvRestart came while a session had to be reaped first
	ends      window
	lastWords lastWords
	cause     *Cause
	farewell  *Cause // why EvStop came; nil before

	lastToken uint64
	armed     uint64 // 0: no timer
	due       time.Time

	stale uint64
}

// NewLifecycle makes a lifecycle in state [New]. supervised says whether a
// first start that fails is retried by the policy (true) or ends the
// registration (false). random yields numbers in [0, 1) for jitter; nil means
// math/rand.
func NewLifecycle(p Policy, supervised bool, random func() float64) *Lifecycle {
	if random == nil {
		random = rand.Float64
	}
	return &Lifecycle{policy: p, supervised: supervised, random: random}
}

// State is where the server stands.
func (l *Lifecycle) State() State { return l.state }

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

// Attempt is how much of the budget is spent: 0 for a proven session, n while
// the nth try in a row is awaited or under way.
func (l *Lifecycle) Attempt() int { return l.attempt }

// Restarts counts every dial after the first.
func (l *Lifecycle) Restarts() int { return l.restarts }

// Cause is why the last session ended, nil if none has. A session that was
// stopped or restarted on request ended for that reason.
func (l *Lifecycle) Cause() *Cause { return l.cause }

// RetryAt is when the next dial is due; the zero time if none is planned.
func (l *Lifecycle) RetryAt() time.Time {
	if l.state == StateBackoff || l.state == StateParked {
		return l.due
	}
	return time.Time{}
}

// Stale counts events that were dropped because they spoke of another epoch
// or timer than the current one.
func (l *Lifecycle) Stale() uint64 { return l.stale }

// Policy is the policy that the lifecycle follows.
func (l *Lifecycle) Policy() Policy { return l.policy }

// Step takes one event at time now and returns what must be done, in order.
// Stale events and events that mean nothing in the current state return nil.
func (l *Lifecycle) Step(now time.Time, ev Input) []Effect {
	if l.isStale(ev) {
		l.stale++
		return nil
	}
	ev.Cause = ev.because()
	for i := range table {
		if t := &table[i]; t.From == l.state && t.On == ev.Kind && l.holds(now, t.When, ev) {
			return l.take(now, t, ev)
		}
	}
	return nil
}

func (l *Lifecycle) isStale(ev Input) bool {
	switch ev.Kind {
	case InputOpened, InputDiscovered, InputFailed, InputDied, InputReleased:
		return ev.Epoch != l.epoch
	case InputTimer:
		return ev.Token == 0 || ev.Token != l.armed
	}
	return false
}

func (l *Lifecycle) holds(now time.Time, g Guard, ev Input) bool {
	switch g {
	case GuardRestartRequested:
		return l.asked
	case GuardFirstStart:
		return !l.everReady && !l.supervised
	case GuardAuthRequired:
		return l.cause != nil && l.cause.Permanent && l.cause.Kind == CauseAuth
	case GuardPermanent:
		return l.cause != nil && l.cause.Permanent
	case GuardBudgetLeft:
		return l.budgetLeft() && !l.spent
	case GuardStandbyReady: // judged before this end is counted
		return ev.Spare != 0 && !ev.Cause.Permanent && l.MayTakeOver(now)
	case GuardMayPark:
		return l.policy.ParkEvery > 0
	}
	return true
}

// MayTakeOver reports whether the policy lets a standby take over if the session
// ended at time now.
func (l *Lifecycle) MayTakeOver(now time.Time) bool {
	return l.budgetLeft() && !l.ends.full(now, l.policy.Intensity)
}

func (l *Lifecycle) budgetLeft() bool {
	return l.policy.MaxAttempts == Unlimited || l.attempt < l.policy.MaxAttempts
}

// take applies one row. What an event means beyond the row's effects (what
// counts as an end, what is remembered of a request) is decided here and
// nowhere else.
func (l *Lifecycle) take(now time.Time, t *Transition, ev Input) []Effect {
	switch ev.Kind {
	case InputFailed, InputDied:
		l.spent = l.ends.exceeded(now, l.policy.Intensity)
		if t.From == StateConnecting && !l.everReady && l.lastWords.repeated(ev.Cause) {
			ev.Cause = l.inVain(ev.Cause)
		}
	case InputRestart:
		l.asked = t.To == StateClosing
	case InputStop:
		l.farewell = ev.Cause
	case InputTimer:
		l.armed = 0
	}
	if t.To != l.state {
		l.state, l.since = t.To, now
	}
	if t.To == StateReady {
		l.everReady = true
	}
	effects := make([]Effect, 0, len(t.Do))
	for _, kind := range t.Do {
		effects = append(effects, l.effect(now, kind, t, ev))
	}
	return effects
}

func (l *Lifecycle) effect(now time.Time, kind EffectKind, t *Transition, ev Input) Effect {
	e := Effect{Kind: kind}
	switch kind {
	case EffectDial:
		l.epoch = l.NextEpoch()
		if l.dialled {
			l.restarts++
		}
		l.dialled = true
		l.asked = false
	case EffectTakeOver:
		l.epoch = ev.Spare
		l.restarts++
		l.attempt++
	case EffectWithdraw:
		e.Cause = ev.Cause
	case EffectEndSession:
		e.Cause, l.cause = ev.Cause, ev.Cause
	case EffectAnnounceGone:
		if e.Cause = l.cause; l.farewell != nil {
			e.Cause = l.farewell
		}
	case EffectArmRetry:
		l.attempt++
		e.Delay = max(l.policy.Delay(l.attempt, l.random()), l.cause.retryAfter())
	case EffectArmPark:
		e.Delay = max(l.policy.ParkEvery, l.cause.retryAfter())
	case EffectArmStable:
		e.Delay = l.policy.stableAfter()
	case EffectCancelTimer:
		e.Token, l.armed = l.armed, 0
	case EffectResetBudget:
		l.attempt = 0
		if t.From != StateReady { // a person asked: forget the restart intensity too
			l.spent = false
			l.ends.reset()
			l.lastWords = lastWords{}
		}
	}
	switch kind {
	case EffectArmRetry, EffectArmPark, EffectArmStable:
		l.lastToken++
		l.armed, l.due = l.lastToken, now.Add(e.Delay)
		e.Token = l.armed
	}
	e.Epoch = l.epoch
	return e
}
