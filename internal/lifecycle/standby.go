package lifecycle

import (
	"math/rand/v2"
	"time"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// StandbyState is the state of the standby of one registration. A standby is a second
// incarnation that is started, negotiated and listed beside the one in service.
type StandbyState string

const (
	// StandbyIdle: no standby runs and none is planned, because the server is not
	// in service.
	StandbyIdle StandbyState = "idle"
	// StandbyWaiting: the timer for the next start is armed.
	StandbyWaiting StandbyState = "waiting"
	// StandbyDraining: a start is due, but the session that the last standby
	// replaced is not released yet. There are never more than two sessions.
	StandbyDraining StandbyState = "draining"
	// StandbyConnecting: the session of the standby is being opened and negotiated.
	StandbyConnecting StandbyState = "connecting"
	// StandbyDiscovering: the lists of the standby are being read.
	StandbyDiscovering StandbyState = "discovering"
	// StandbyReady: the catalog of the standby is complete; it can take over.
	StandbyReady StandbyState = "ready"
	// StandbyClosing: the standby failed or died before it was needed, and its
	// session is being released. Another start may follow.
	StandbyClosing StandbyState = "closing"
	// StandbyStopping: the server left service, and the session of the standby is
	// being released. No start follows until the server is in service again.
	StandbyStopping StandbyState = "stopping"
	// StandbyGivenUp: more starts in a row failed than the policy allows, or one with a permanent
	// cause. The next fresh session of the server brings a new chance.
	StandbyGivenUp StandbyState = "given up"
)

// Live reports whether the state has a session behind it that must be released
// before the lifecycle dials again.
func (s StandbyState) Live() bool {
	switch s {
	case StandbyConnecting, StandbyDiscovering, StandbyReady, StandbyClosing, StandbyStopping:
		return true
	default:
	}
	return false
}

// Standby is the state machine of the standby of one registration. It runs
// beside the [Lifecycle]: the caller feeds both, and tells each what the other
// decided. Like the lifecycle it is pure, and not safe for concurrent use.
//
// A standby that fails is retried with the delays of the policy. It has a
// budget of its own: its failures never count against the server in service.
type Standby struct {
	policy    supervisor.Policy
	nextEpoch func() uint64
	random    func() float64

	state   StandbyState
	epoch   uint64    // of the session behind a live state; 0 in the other states
	started time.Time // when that session was dialled
	// draining is true while the session that the last standby replaced is not
	// released.
	draining bool
	// failures counts failed starts in a row. A standby that was up for
	// StableAfter resets the count.
	failures  int
	permanent bool // the last failure had a permanent cause: no other start before the next fresh session
	host      bool // the last failure was a limit of the host, which does not count

	lastToken uint64
	armed     uint64 // token of the armed timer; 0: no timer is armed
	stale     uint64
}

// NewStandby makes a standby in state [StandbyIdle]. nextEpoch numbers its
// incarnations, usually [Lifecycle.NextEpoch]. random yields numbers in [0, 1)
// for jitter; nil means math/rand.
func NewStandby(p supervisor.Policy, nextEpoch func() uint64, random func() float64) *Standby {
	if random == nil {
		random = rand.Float64
	}
	return &Standby{policy: p, nextEpoch: nextEpoch, random: random, state: StandbyIdle}
}

// State is the current state of the standby.
func (s *Standby) State() StandbyState { return s.state }

// Epoch is the incarnation that is the standby now; 0 while there is no session.
func (s *Standby) Epoch() uint64 { return s.epoch }

// Owns reports whether epoch is the incarnation that is the standby now. The
// inputs about such an epoch are for the standby and not for the lifecycle.
func (s *Standby) Owns(epoch uint64) bool { return epoch != 0 && epoch == s.epoch }

// Stale counts inputs that were dropped because they were about another epoch
// or timer than the current one.
func (s *Standby) Stale() uint64 { return s.stale }

// Step takes one input at time now and returns the effects that the caller must
// carry out, in order. An input without a row in the current state changes nothing.
func (s *Standby) Step(now time.Time, in Input) []Effect {
	if s.isStale(in) {
		s.stale++
		return nil
	}
	in.Cause = in.causeOrDefault()
	for i := range standbyTable {
		if t := &standbyTable[i]; t.From == s.state && t.On == in.Kind && s.holds(t.When) {
			return s.apply(now, t, in)
		}
	}
	return nil
}

func (s *Standby) isStale(in Input) bool {
	switch in.Kind {
	case InputOpened, InputDiscovered, InputFailed, InputDied, InputReleased:
		return in.Epoch != s.epoch
	case InputTimer:
		return in.Token == 0 || in.Token != s.armed
	default:
	}
	return false
}

func (s *Standby) holds(g Guard) bool {
	switch g {
	case GuardDraining:
		return s.draining
	case GuardStandbyRetry:
		return !s.permanent && (s.policy.MaxAttempts == supervisor.Unlimited || s.failures <= s.policy.MaxAttempts)
	default:
	}
	return true
}

// apply takes one row: first it updates the counters, then the state, then it makes the
// effects.
func (s *Standby) apply(now time.Time, t *StandbyTransition, in Input) []Effect {
	switch in.Kind {
	case InputServing:
		s.failures, s.permanent = 0, false
	case InputTakenOver:
		s.draining = true
	case InputDrained:
		s.draining = false
	case InputFailed, InputDied:
		s.countFailure(now, in.Cause)
	case InputTimer:
		s.armed = 0
	default:
	}
	s.state = t.To
	effects := make([]Effect, 0, len(t.Do))
	for _, kind := range t.Do {
		effects = append(effects, s.effect(now, kind, in))
	}
	if !s.state.Live() {
		s.epoch = 0
	}
	return effects
}

// countFailure counts a failed start, and the end of a standby that was ready.
func (s *Standby) countFailure(now time.Time, cause *supervisor.Cause) {
	if s.host = cause.Host; s.host {
		return
	}
	if s.failures++; now.Sub(s.started) >= stableAfter(s.policy) {
		s.failures = 1
	}
	s.permanent = cause.Permanent
}

func (s *Standby) effect(now time.Time, kind EffectKind, in Input) Effect {
	e := Effect{Kind: kind}
	switch kind {
	case EffectDial:
		s.epoch, s.started = s.nextEpoch(), now
	case EffectEndSession, EffectAnnounceLost:
		e.Cause = in.Cause
	case EffectArmStandby:
		e.Delay = s.delay(in)
		s.lastToken++
		s.armed = s.lastToken
		e.Token = s.armed
	case EffectCancelTimer:
		e.Token, s.armed = s.armed, 0
	default:
	}
	e.Epoch = s.epoch
	return e
}

// TakeoverPause is the minimum wait between a takeover and the start of the next standby. A
// start competes with the calls that waited for the takeover for CPU, and is not urgent.
const TakeoverPause = 50 * time.Millisecond

// delay is the wait before the next start. The first standby of a fresh session
// starts at once. One that replaces a standby waits as a retry would, and at least
// TakeoverPause.
func (s *Standby) delay(in Input) time.Duration {
	switch in.Kind {
	case InputTakenOver:
		return max(TakeoverPause, s.policy.Delay(in.Attempt, s.random()))
	case InputReleased:
		if s.host {
			return HostPause
		}
		return s.policy.Delay(s.failures, s.random())
	default:
	}
	return 0
}

// StandbyTransition is one row of the standby's table: in state From, on input
// On, if the guard When holds, go to To and carry out Do in this order.
type StandbyTransition struct {
	From StandbyState
	On   InputKind
	When Guard
	To   StandbyState
	Do   []EffectKind
}

// standbyTable is the state machine of the standby. For one state and input the
// first row whose guard holds is taken; an input without a row is ignored.
//
// The lifecycle announces itself by three inputs: serving (a fresh session is
// published), taken over (the standby is in service now) and withdrawn (no
// session is in service). The replaced session is announced by drained.
var standbyTable = []StandbyTransition{
	{StandbyIdle, InputServing, GuardAlways, StandbyWaiting, do(EffectArmStandby)},
	{StandbyIdle, InputDrained, GuardAlways, StandbyIdle, nil},

	{StandbyWaiting, InputTimer, GuardDraining, StandbyDraining, nil},
	{StandbyWaiting, InputTimer, GuardAlways, StandbyConnecting, do(EffectDial)},
	{StandbyWaiting, InputDrained, GuardAlways, StandbyWaiting, nil},
	{StandbyWaiting, InputWithdrawn, GuardAlways, StandbyIdle, do(EffectCancelTimer)},

	{StandbyDraining, InputDrained, GuardAlways, StandbyConnecting, do(EffectDial)},
	{StandbyDraining, InputWithdrawn, GuardAlways, StandbyIdle, nil},

	{StandbyConnecting, InputOpened, GuardAlways, StandbyDiscovering, do(EffectDiscover)},
	{StandbyConnecting, InputFailed, GuardAlways, StandbyClosing, do(EffectEndSession, EffectAnnounceLost)},
	{StandbyConnecting, InputDied, GuardAlways, StandbyClosing, do(EffectEndSession, EffectAnnounceLost)},
	{StandbyConnecting, InputWithdrawn, GuardAlways, StandbyStopping, do(EffectEndSession)},

	{StandbyDiscovering, InputDiscovered, GuardAlways, StandbyReady, do(EffectAnnounceStandby)},
	{StandbyDiscovering, InputFailed, GuardAlways, StandbyClosing, do(EffectEndSession, EffectAnnounceLost)},
	{StandbyDiscovering, InputDied, GuardAlways, StandbyClosing, do(EffectEndSession, EffectAnnounceLost)},
	{StandbyDiscovering, InputWithdrawn, GuardAlways, StandbyStopping, do(EffectEndSession)},

	{StandbyReady, InputTakenOver, GuardAlways, StandbyWaiting, do(EffectArmStandby)},
	{StandbyReady, InputDied, GuardAlways, StandbyClosing, do(EffectEndSession, EffectAnnounceLost)},
	{StandbyReady, InputWithdrawn, GuardAlways, StandbyStopping, do(EffectEndSession)},

	{StandbyClosing, InputReleased, GuardStandbyRetry, StandbyWaiting, do(EffectArmStandby)},
	{StandbyClosing, InputReleased, GuardAlways, StandbyGivenUp, nil},
	{StandbyClosing, InputWithdrawn, GuardAlways, StandbyStopping, nil},

	{StandbyStopping, InputReleased, GuardAlways, StandbyIdle, nil},

	{StandbyGivenUp, InputWithdrawn, GuardAlways, StandbyIdle, nil},
}
