package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// port is the transport actor: it owns the session of one incarnation, opens
// it, lists what it offers, probes it while it is ready, and ends it. It lives
// once; calls do not pass through it.
type port struct {
	rt     *Runtime
	inc    *incarnation
	self   *actor.PID
	parent *actor.PID

	probes *time.Timer
	missed int // probes in a row
	refresher
	granter
	listener
}

func newPort(rt *Runtime, inc *incarnation) *port {
	return &port{rt: rt, inc: inc}
}

// Receive implements actor.Actor.
func (p *port) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		p.self, p.parent = c.Self(), c.Parent()
		p.inc.session.OnNotice(p.heard)
		p.open()
	case *messages.Discover:
		p.discover()
	case *messages.StartProbing:
		if !p.ready {
			p.ready = true
			p.armProbe(p.inc.spec.Probe.Interval)
			p.planRefresh()
			p.goOnGranting()
		}
	case *firstListsRead:
		p.age(catalog.AllLists, catalog.AllLists, m.catalog)
	case *listChanged:
		p.announced()
	case *refreshDue:
		p.refresh()
	case *refreshNow:
		p.waiting = append(p.waiting, m.reply)
		p.refresh()
	case *listsRead:
		p.listedAgain(m)
	case *reconcileSubscriptions:
		p.wished(m)
	case *subscriptionsReconciled:
		p.granted(m)
	case *retrySubscriptions:
		p.grant(true)
	case *messages.ProbeDue:
		p.probe()
	case *messages.Probed:
		p.probed(m)
	case *messages.EndSession:
		p.rest()
		p.inc.session.Abort(m.Cause)
	case *actor.Stopping:
		p.rest()
		p.inc.session.Abort(&supervisor.Cause{Kind: supervisor.CausePanic, Message: "the transport actor was stopped"})
	}
}

func (p *port) tell(m any) { p.rt.system.Root.Send(p.parent, m) }

func (p *port) open() {
	inc, epoch := p.inc, p.inc.epoch
	p.rt.goSafe("port", func() {
		ctx, cancel := bounded(inc.spec.Timeouts.Start)
		defer cancel()
		if err := inc.session.Open(ctx); err != nil {
			p.tell(&messages.Failed{Epoch: epoch, Cause: asCause(err, supervisor.CauseHandshake)})
			return
		}
		p.tell(&messages.Opened{Epoch: epoch})
	}, p.panicked)
}

func (p *port) discover() {
	inc, epoch := p.inc, p.inc.epoch
	p.granting = true
	p.rt.goSafe("port", func() {
		ctx, cancel := bounded(inc.spec.Timeouts.List)
		defer cancel()
		if inc.session.Info().Era == mcpvisor.EraModern { // first, so that no change falls in between
			soon, cancel := context.WithTimeout(ctx, ackTimeout)
			p.applyAtStart(soon)
			cancel()
		}
		catalog, err := transport.Discover(ctx, inc.session, inc.server, inc.spec.Limits)
		if err != nil {
			cause := asCause(err, supervisor.CauseProtocol)
			if ctx.Err() != nil && cause.Kind == supervisor.CauseProtocol {
				cause = &supervisor.Cause{Kind: supervisor.CauseTimeout, Err: err,
					Message: "server did not list what it offers in time; raise Timeouts.List if it is slow"}
			}
			if len(cause.Stderr) == 0 { // what a list fails of is often said there
				cause = cause.Clone()
				cause.Stderr = transport.StderrOf(inc.session)
			}
			p.tell(&messages.Failed{Epoch: epoch, Cause: cause})
			return
		}
		if inc.session.Info().Era != mcpvisor.EraModern {
			p.applyAtStart(ctx)
		}
		catalog = catalog.Offered(inc.spec.Tools)
		p.rt.system.Root.Send(p.self, &firstListsRead{catalog: catalog})
		p.tell(&messages.Discovered{Epoch: epoch, Catalog: catalog})
	}, p.panicked)
}

// applyAtStart tells a new incarnation what the host wishes to hear. What it
// refuses, or does not confirm in time, is no reason not to serve.
func (p *port) applyAtStart(ctx context.Context) {
	p.rt.system.Root.Send(p.self, p.apply(ctx, nil, false))
}

func (p *port) panicked(v any) {
	p.tell(&messages.Failed{Epoch: p.inc.epoch, Cause: &supervisor.Cause{Kind: supervisor.CausePanic,
		Message: fmt.Sprintf("internal error while starting the server: %v", v)}})
}

// armProbe waits for silence. Only ready servers are probed.
func (p *port) armProbe(after time.Duration) {
	if p.inc.spec.Probe.Interval < 0 {
		return
	}
	self := p.self
	p.probes = time.AfterFunc(after, func() { p.rt.system.Root.Send(self, &messages.ProbeDue{}) })
}

// rest stops every timer.
func (p *port) rest() {
	p.ready = false
	if p.probes != nil {
		p.probes.Stop()
	}
	p.stopRefresh()
	p.stopGranting()
}

func (p *port) probe() {
	every := p.inc.spec.Probe.Interval
	if quiet := time.Since(p.inc.session.LastHeard()); 0 <= quiet && quiet < every && p.missed == 0 {
		p.armProbe(every - quiet)
		return
	}
	inc, self := p.inc, p.self
	p.rt.goSafe("port", func() {
		started, heard := time.Now(), inc.session.LastHeard()
		ctx, cancel := bounded(inc.spec.Probe.Timeout)
		defer cancel()
		err := transport.Probe(ctx, inc.session)
		if err != nil && !inc.session.LastHeard().Equal(heard) {
			err = nil // it talks, even if not to us
		}
		p.rt.system.Root.Send(self, &messages.Probed{Err: err, Took: time.Since(started)})
	}, func(v any) {
		p.rt.system.Root.Send(self, &messages.Probed{Err: fmt.Errorf("internal error in a probe: %v", v)})
	})
}

func (p *port) probed(m *messages.Probed) {
	if m.Err == nil {
		p.missed = 0
		p.armProbe(p.inc.spec.Probe.Interval)
		return
	}
	if p.missed++; p.missed < p.inc.spec.Probe.Failures {
		p.armProbe(0)
		return
	}
	cause := transport.ProbeCause(p.missed, m.Err)
	cause.Stderr = transport.StderrOf(p.inc.session)
	p.inc.session.Abort(cause)
}

// bounded is a context that ends after d, or only when cancelled if d is
// negative.
func bounded(d time.Duration) (context.Context, context.CancelFunc) {
	if d < 0 {
		return context.WithCancel(context.Background())
	}
	return context.WithTimeout(context.Background(), d)
}

func asCause(err error, kind supervisor.CauseKind) *supervisor.Cause {
	var c *supervisor.Cause
	if errors.As(err, &c) {
		return c
	}
	c = &supervisor.Cause{Kind: kind, Err: err, Message: err.Error()}
	if errors.Is(err, mcpvisor.ErrAuthRequired) {
		c.Kind, c.Permanent = supervisor.CauseAuth, true
	}
	return c
}
