package supervisor

import (
	"math/rand/v2"
	"time"
)

// Lifecycle is the state machine of one registration: feed it inputs with
// [Lifecycle.Step], and carry out the effects. It is not safe for concurrent use; the
// supervising actor owns it.
type Lifecycle struct {
	// Set once.
	policy     Policy
	supervised bool // the policy applies to the first start, too
	random     func() float64

	state     State
	since     time.Time // when state was entered
	epoch     uint64    // of the current incarnation
	lastEpoch uint64    // the highest that NextEpoch gave out
	dialled   bool      // there was a first dial
	everReady bool
	restarts  int

	// The budget. attempt is how much of MaxAttempts is spent. ends are the recent ends
	// for the restart intensity; tooMany: they exceed it. lastExit is the end of the last
	// start, if it was a process that exited.
	attempt  int
	ends     window
	tooMany  bool
	lastExit lastExit

	restartRequested bool   // dial when the session is released
	cause            *Cause // why the last session ended; nil if none has
	stopCause        *Cause // why the registration ends; nil before InputStop

	lastToken uint64
	armed     uint64 // token of the armed timer; 0: no timer is armed
	due       time.Time

	stale uint64
}

// NewLifecycle makes a lifecycle in state [StateNew]. supervised says whether a
// first start that fails is retried by the policy (true) or ends the
// registration (false). random yields numbers in [0, 1) for jitter; nil means
// math/rand.
func NewLifecycle(p Policy, supervised bool, random func() float64) *Lifecycle {
	if random == nil {
		random = rand.Float64
	}
	return &Lifecycle{policy: p, supervised: supervised, random: random}
}

// State is the current state of the server.
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

// Attempt is how much of the budget is spent: 0 for a stable session, n while the nth
// try in a row is awaited or under way.
func (l *Lifecycle) Attempt() int { return l.attempt }

// Restarts counts every dial after the first, and every takeover by a standby.
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

// Stale counts inputs that were dropped because they were about another epoch or timer
// than the current one.
func (l *Lifecycle) Stale() uint64 { return l.stale }

// Policy is the policy that the lifecycle follows.
func (l *Lifecycle) Policy() Policy { return l.policy }

// MayTakeOver reports whether the policy lets a standby take over if the session
// ended at time now.
func (l *Lifecycle) MayTakeOver(now time.Time) bool {
	return l.budgetLeft() && !l.ends.full(now, l.policy.Intensity)
}

// Step takes one input at time now and returns the effects that the caller must carry
// out, in order. A stale input, and an input without a row in the current state, return
// nil.
func (l *Lifecycle) Step(now time.Time, in Input) []Effect {
	if l.isStale(in) {
		l.stale++
		return nil
	}
	in.Cause = in.causeOrDefault()
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
	}
	return false
}

func (l *Lifecycle) holds(now time.Time, g Guard, in Input) bool {
	switch g {
	case GuardRestartRequested:
		return l.restartRequested
	case GuardFirstStart:
		return !l.everReady && !l.supervised
	case GuardAuthRequired:
		return l.cause != nil && l.cause.Permanent && l.cause.Kind == CauseAuth
	case GuardPermanent:
		return l.cause != nil && l.cause.Permanent
	case GuardBudgetLeft:
		return l.budgetLeft() && !l.tooMany
	case GuardStandbyReady: // this end is not counted yet
		return in.Standby != 0 && !in.Cause.Permanent && l.MayTakeOver(now)
	case GuardMayPark:
		return l.policy.ParkEvery > 0
	}
	return true
}

func (l *Lifecycle) budgetLeft() bool {
	return l.policy.MaxAttempts == Unlimited || l.attempt < l.policy.MaxAttempts
}

// apply takes one row: first it updates the counters and causes, then the state, then it
// makes the effects. Nothing else changes a field.
func (l *Lifecycle) apply(now time.Time, t *Transition, in Input) []Effect {
	switch in.Kind {
	case InputFailed, InputDied:
		l.tooMany = l.ends.exceeded(now, l.policy.Intensity)
		if t.From == StateConnecting && !l.everReady && l.lastExit.repeatedBy(in.Cause) {
			in.Cause = l.permanentExit(in.Cause)
		}
	case InputRestart:
		l.restartRequested = t.To == StateClosing
	case InputStop:
		l.stopCause = in.Cause
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
		l.restartRequested = false
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
		l.resetBudget(t.From != StateReady)
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

// resetBudget allows all attempts again. A restart on request also resets the restart
// intensity; a session that became stable does not.
func (l *Lifecycle) resetBudget(requested bool) {
	l.attempt = 0
	if requested {
		l.tooMany = false
		l.ends.reset()
		l.lastExit = lastExit{}
	}
}
