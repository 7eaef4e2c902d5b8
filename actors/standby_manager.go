package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/internal/lifecycle"
	"github.com/mcpvisor/mcpvisor/messages"
)

// standbyManager carries out what the state machine of the standby decides. A standby
// is started, negotiated, listed and probed like the incarnation in service, but no
// call reaches it before it takes over.
//
// All fields are owned by the goroutine of the supervising actor.
type standbyManager struct {
	owner   *supervisingActor
	enabled bool // ServerSpec.Standby
	machine *lifecycle.Standby
	timer   *time.Timer // of the next start

	// The session of the standby. inc and port are nil while there is no standby;
	// catalog is nil until the standby is ready.
	inc     *incarnation
	port    *actor.PID
	catalog *catalog.Catalog

	// draining are the incarnations that a standby replaced and that are not released
	// yet, by epoch.
	draining map[uint64]drainingIncarnation
}

type drainingIncarnation struct {
	inc  *incarnation
	port *actor.PID
}

// standbyDue: the timer with that token fired.
type standbyDue struct {
	messages.Base
	token uint64
}

// owns reports whether epoch is the incarnation of the standby.
func (m *standbyManager) owns(epoch uint64) bool { return m.machine.Owns(epoch) }

// ready returns the standby if it can take over at this moment, and nil otherwise. Its
// session may have died although the report of that has not arrived yet.
func (m *standbyManager) ready() *incarnation {
	if m.machine.State() != lifecycle.StandbyReady || m.inc.session.Cause() != nil {
		return nil
	}
	return m.inc
}

// readyEpoch is the epoch of ready, or 0.
func (m *standbyManager) readyEpoch() uint64 {
	if inc := m.ready(); inc != nil {
		return inc.epoch
	}
	return 0
}

// isReleased reports whether nothing is left of the standby and of what it replaced.
func (m *standbyManager) isReleased() bool { return m.inc == nil && len(m.draining) == 0 }

// step feeds the state machine and carries out its effects.
func (m *standbyManager) step(c actor.Context, in lifecycle.Input) {
	if !m.enabled {
		return
	}
	for _, e := range m.machine.Step(time.Now(), in) {
		m.execute(c, e)
	}
}

func (m *standbyManager) execute(c actor.Context, e lifecycle.Effect) {
	switch e.Kind {
	case lifecycle.EffectArmStandby:
		stopTimer(&m.timer)
		m.timer = m.owner.afterFunc(e.Delay, &standbyDue{token: e.Token})
	case lifecycle.EffectCancelTimer:
		stopTimer(&m.timer)
	case lifecycle.EffectDial:
		m.inc, m.port = m.owner.startIncarnation(c, e.Epoch, true)
	case lifecycle.EffectDiscover:
		c.Send(m.port, &messages.Discover{})
	case lifecycle.EffectAnnounceStandby:
		c.Send(m.port, &messages.SessionReady{})
		info := m.inc.session.Info()
		m.owner.reportStandby(e.Epoch, mcpvisor.Event{Kind: mcpvisor.EventStandby, PID: info.PID, Protocol: info.ProtocolVersion, StartTook: m.inc.startTook})
	case lifecycle.EffectEndSession:
		c.Send(m.port, &messages.EndSession{Cause: e.Cause})
	case lifecycle.EffectAnnounceLost:
		m.owner.reportStandby(e.Epoch, mcpvisor.Event{Kind: mcpvisor.EventStandbyLost, Cause: e.Cause})
	default:
	}
}

// onDiscovered keeps the catalog, if the standby has waited for it.
func (m *standbyManager) onDiscovered(c actor.Context, d *messages.Discovered) {
	if m.machine.State() == lifecycle.StandbyDiscovering {
		m.catalog, m.inc.startTook = d.Catalog, time.Since(m.inc.started)
	}
	m.step(c, lifecycle.Input{Kind: lifecycle.InputDiscovered, Epoch: d.Epoch})
}

// takeOver hands the standby to the supervising actor, in exchange for the incarnation
// whose session has died.
func (m *standbyManager) takeOver(c actor.Context, old drainingIncarnation, attempt int) (*incarnation, *actor.PID, *catalog.Catalog) {
	if m.draining == nil {
		m.draining = map[uint64]drainingIncarnation{}
	}
	m.draining[old.inc.epoch] = old
	inc, port, catalog := m.inc, m.port, m.catalog
	m.inc, m.port, m.catalog = nil, nil, nil
	inc.isStandby.Store(false)
	m.step(c, lifecycle.Input{Kind: lifecycle.InputTakenOver, Attempt: attempt})
	return inc, port, catalog
}

// onReleased handles the release of an incarnation, and reports whether it was the
// standby or one that the standby replaced.
func (m *standbyManager) onReleased(c actor.Context, epoch uint64) bool {
	switch old, draining := m.draining[epoch]; {
	case draining:
		c.Stop(old.port)
		delete(m.draining, epoch)
		m.step(c, lifecycle.Input{Kind: lifecycle.InputDrained})
	case m.owns(epoch):
		c.Stop(m.port)
		m.inc, m.port, m.catalog = nil, nil, nil
		m.step(c, lifecycle.Input{Kind: lifecycle.InputReleased, Epoch: epoch})
	default:
		return false
	}
	return true
}

// ports are those of incarnations.
func (m *standbyManager) ports() []*actor.PID {
	all := []*actor.PID{m.port}
	for _, d := range m.draining {
		all = append(all, d.port)
	}
	return all
}

// incarnations are all that may hold something: the standby, and what it replaced.
func (m *standbyManager) incarnations() []*incarnation {
	var all []*incarnation
	if m.inc != nil {
		all = append(all, m.inc)
	}
	for _, d := range m.draining {
		all = append(all, d.inc)
	}
	return all
}
