package lifecycle_test

import (
	"math"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/internal/lifecycle"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// model describes the lifecycle a second time, by facts instead of a table: is there a
// session, how far did it get, what did the user request. The state is derived from
// them.
type model struct {
	policy     supervisor.Policy
	supervised bool

	registered, over bool
	session          *progress           // nil between sessions
	resting          supervisor.State    // the state while there is no session
	requested        lifecycle.InputKind // InputRestart, InputStop or nothing
	served           bool                // a session became ready
	permanent        bool                // the last end was permanent
	unauthorized     bool                // and for lack of credentials
	fenced           bool
	tries            int
	ends             []time.Time // all of them, never pruned
	tooMany          bool
}

type progress struct{ opened, listed, stable, ending bool }

// take applies an input that is not stale.
func (m *model) take(now time.Time, ev lifecycle.Input) {
	s := m.session
	running := s != nil && !s.ending
	switch ev.Kind {
	case lifecycle.InputRegister:
		if !m.registered && !m.over {
			m.registered, m.session = true, &progress{}
		}
	case lifecycle.InputOpened:
		if running {
			s.opened = true
		}
	case lifecycle.InputDiscovered:
		if running && s.opened {
			s.listed, m.served = true, true
		}
	case lifecycle.InputFailed, lifecycle.InputDied:
		if running && (ev.Kind == lifecycle.InputDied || !s.listed) {
			s.ending = true
			m.permanent = ev.Cause != nil && ev.Cause.Permanent
			m.unauthorized = m.permanent && ev.Cause.Kind == supervisor.CauseAuth
			m.countEnd(now)
			if ev.Kind == lifecycle.InputDied && s.listed && ev.Standby != 0 && !m.permanent && m.left() > 0 && !m.tooMany {
				m.tries++
				m.session = &progress{opened: true, listed: true}
			}
		}
	case lifecycle.InputReleased:
		if s != nil && s.ending {
			m.session = nil
			m.judge()
		}
	case lifecycle.InputTimer:
		if s != nil {
			s.stable, m.tries = true, 0
		} else {
			m.session = &progress{}
		}
	case lifecycle.InputRestart, lifecycle.InputStop:
		m.request(ev.Kind)
	case lifecycle.InputFence:
		m.fence()
	default:
	}
}

func (m *model) request(kind lifecycle.InputKind) {
	stop := kind == lifecycle.InputStop
	switch {
	case m.over, !stop && (!m.registered || m.fenced || m.requested == lifecycle.InputStop):
	case m.session != nil:
		m.requested, m.session.ending = kind, true
	case stop:
		m.over = true
	default:
		m.begin()
	}
}

func (m *model) fence() {
	switch {
	case m.over, !m.registered, m.requested == lifecycle.InputStop:
		return
	case m.session != nil:
		m.session.ending, m.requested = true, ""
	default:
		m.resting = supervisor.StateEvicted
	}
	m.fenced, m.permanent, m.unauthorized = true, true, false
}

func (m *model) begin() {
	m.tries, m.ends, m.requested, m.session = 0, nil, "", &progress{}
}

func (m *model) countEnd(now time.Time) {
	in := m.policy.Intensity
	if in == (supervisor.Intensity{}) {
		return
	}
	m.ends = append(m.ends, now)
	inside := 0
	for _, e := range m.ends {
		if e.Add(in.Window).After(now) {
			inside++
		}
	}
	m.tooMany = inside > in.Restarts
}

func (m *model) left() int {
	if m.policy.MaxAttempts == supervisor.Unlimited {
		return math.MaxInt
	}
	return m.policy.MaxAttempts - m.tries
}

// judge decides what follows a session that is released.
func (m *model) judge() {
	switch {
	case m.requested == lifecycle.InputStop:
		m.over = true
	case m.requested == lifecycle.InputRestart:
		m.begin()
	case !m.served && !m.supervised:
		m.over = true
	case m.unauthorized:
		m.resting = supervisor.StateUnauthorized
	case m.permanent:
		m.resting = supervisor.StateEvicted
	case m.left() > 0 && !m.tooMany:
		m.tries++
		m.resting = supervisor.StateBackoff
	case m.policy.ParkEvery > 0:
		m.resting = supervisor.StateParked
	default:
		m.resting = supervisor.StateEvicted
	}
}

func (m *model) state() supervisor.State {
	switch s := m.session; {
	case m.over:
		return supervisor.StateStopped
	case s == nil && m.registered:
		return m.resting
	case s == nil:
		return lifecycle.StateNew
	case s.ending && m.requested == lifecycle.InputStop:
		return supervisor.StateStopping
	case s.ending:
		return supervisor.StateClosing
	case s.listed:
		return supervisor.StateReady
	case s.opened:
		return supervisor.StateDiscovering
	}
	return supervisor.StateConnecting
}

// delay is how long a timer of that kind must take; jitter is not modelled.
func (m *model) delay(kind lifecycle.EffectKind) time.Duration {
	switch kind {
	case lifecycle.EffectArmPark:
		return m.policy.ParkEvery
	case lifecycle.EffectArmStable:
		if m.policy.StableAfter == 0 {
			return defaults.StableAfter
		}
		return m.policy.StableAfter
	default:
	}
	limit := m.policy.Max
	if limit == 0 {
		limit = defaults.MaxDelay
	}
	return time.Duration(min(math.Ldexp(float64(m.policy.Base), m.tries-1), float64(limit)))
}
