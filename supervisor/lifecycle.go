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

// Reserve gives out the number of an incarnation that is started beside the
// current one, as a standby.
func (l *Lifecycle) Reserve() uint64 {
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
	if l.state == Backoff || l.state == Parked {
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
func (l *Lifecycle) Step(now time.Time, ev Event) []Effect {
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

func (l *Lifecycle) isStale(ev Event) bool {
	switch ev.Kind {
	case EvOpened, EvDiscovered, EvFailed, EvDied, EvReleased:
		return ev.Epoch != l.epoch
	case EvTimer:
		return ev.Token == 0 || ev.Token != l.armed
	}
	return false
}

func (l *Lifecycle) holds(now time.Time, g Guard, ev Event) bool {
	switch g {
	case RestartAsked:
		return l.asked
	case FirstStart:
		return !l.everReady && !l.supervised
	case WantsAuth:
		return l.cause != nil && l.cause.Permanent && l.cause.Kind == CauseAuth
	case Permanent:
		return l.cause != nil && l.cause.Permanent
	case BudgetLeft:
		return l.budgetLeft() && !l.spent
	case SpareReady: // judged before this end is counted
		return ev.Spare != 0 && !ev.Cause.Permanent && l.MayTakeOver(now)
	case MayPark:
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
func (l *Lifecycle) take(now time.Time, t *Transition, ev Event) []Effect {
	switch ev.Kind {
	case EvFailed, EvDied:
		l.spent = l.ends.exceeded(now, l.policy.Intensity)
		if t.From == Connecting && !l.everReady && l.lastWords.repeated(ev.Cause) {
			ev.Cause = l.inVain(ev.Cause)
		}
	case EvRestart:
		l.asked = t.To == Closing
	case EvStop:
		l.farewell = ev.Cause
	case EvTimer:
		l.armed = 0
	}
	if t.To != l.state {
		l.state, l.since = t.To, now
	}
	if t.To == Ready {
		l.everReady = true
	}
	effects := make([]Effect, 0, len(t.Do))
	for _, kind := range t.Do {
		effects = append(effects, l.effect(now, kind, t, ev))
	}
	return effects
}

func (l *Lifecycle) effect(now time.Time, kind EffectKind, t *Transition, ev Event) Effect {
	e := Effect{Kind: kind}
	switch kind {
	case DoDial:
		l.epoch = l.Reserve()
		if l.dialled {
			l.restarts++
		}
		l.dialled = true
		l.asked = false
	case DoTakeOver:
		l.epoch = ev.Spare
		l.restarts++
		l.attempt++
	case DoWithdraw:
		e.Cause = ev.Cause
	case DoReap:
		e.Cause, l.cause = ev.Cause, ev.Cause
	case DoGone:
		if e.Cause = l.cause; l.farewell != nil {
			e.Cause = l.farewell
		}
	case DoArmRetry:
		l.attempt++
		e.Delay = max(l.policy.Delay(l.attempt, l.random()), l.cause.retryAfter())
	case DoArmPark:
		e.Delay = max(l.policy.ParkEvery, l.cause.retryAfter())
	case DoArmStable:
		e.Delay = l.policy.stableAfter()
	case DoCancelTimer:
		e.Token, l.armed = l.armed, 0
	case DoResetBudget:
		l.attempt = 0
		if t.From != Ready { // a person asked: forget the restart intensity too
			l.spent = false
			l.ends.reset()
			l.lastWords = lastWords{}
		}
	}
	switch kind {
	case DoArmRetry, DoArmPark, DoArmStable:
		l.lastToken++
		l.armed, l.due = l.lastToken, now.Add(e.Delay)
		e.Token = l.armed
	}
	e.Epoch = l.epoch
	return e
}
