package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors/internal/subscription"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/discovery"
)

// port is the actor of one incarnation. It owns the session: it opens it, lists what
// the server offers, and ends it. While the server is ready, three components keep it
// so. A port lives as long as its session and is never restarted; calls do not pass
// through it.
//
// All fields are owned by the goroutine of the actor, except where the comment of a
// component says otherwise.
type port struct {
	ref        *portRef
	ready      bool // SessionReady has come, and the session was not ended since
	prober     *prober
	refresher  *refresher
	reconciler *subscriptionReconciler
}

// portRef is what the components of a port share. self and parent are set before the
// port handles anything else; nothing changes afterwards, so any goroutine may read it.
type portRef struct {
	rt           *Runtime
	inc          *incarnation
	self, parent *actor.PID
}

// sendSelf sends a message to the port. Any goroutine may call it.
func (r *portRef) sendSelf(m messages.Message) { r.rt.send(r.self, m) }

// sendParent sends a message to the supervising actor. Any goroutine may call it.
func (r *portRef) sendParent(m messages.Message) { r.rt.send(r.parent, m) }

// afterFunc sends a message to the port after d.
func (r *portRef) afterFunc(d time.Duration, m messages.Message) *time.Timer {
	return time.AfterFunc(d, func() { r.sendSelf(m) })
}

func newPort(rt *Runtime, inc *incarnation) *port {
	ref := &portRef{rt: rt, inc: inc}
	p := &port{ref: ref, prober: &prober{port: ref}, refresher: &refresher{port: ref}}
	p.reconciler = newSubscriptionReconciler(ref, p.refresher)
	return p
}

// Receive implements actor.Actor.
func (p *port) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		p.ref.self, p.ref.parent = c.Self(), c.Parent()
		p.ref.inc.session.OnNotice(p.onNotice)
		if source, ok := p.ref.inc.session.(transport.ServerRequestSource); ok && p.ref.rt.opts.Observer != nil {
			source.OnServerRequest(p.ref.observeServerRequest)
		}
		p.open()
	case *messages.Discover:
		p.discover()
	case *messages.SessionReady:
		p.start()
	case *messages.ProbeDue:
		p.prober.probe()
	case *messages.Probed:
		p.prober.onProbed(m)
	case *messages.EndSession:
		p.stop()
		p.ref.inc.session.Abort(m.Cause)
	case *actor.Stopping:
		p.stop()
		p.ref.inc.session.Abort(&supervisor.Cause{Kind: supervisor.CausePanic, Message: "the port of the session was stopped"})
	default:
		p.refresher.receive(m)
		p.reconciler.receive(m)
	}
}

// start begins what only a ready server needs.
func (p *port) start() {
	if p.ready {
		return
	}
	p.ready = true
	p.prober.start()
	p.refresher.start()
	p.reconciler.start()
}

// stop stops every timer. What runs in a goroutine ends with the session.
func (p *port) stop() {
	p.ready = false
	p.prober.stop()
	p.refresher.stop()
	p.reconciler.stop()
}

// open opens the session: spawn or connect, and negotiate.
func (p *port) open() {
	ref, inc := p.ref, p.ref.inc
	ref.rt.goSafe("port", func() {
		ctx, cancel := bounded(inc.spec.Timeouts.Start)
		defer cancel()
		if err := inc.session.Open(ctx); err != nil {
			ref.sendParent(&messages.Failed{Epoch: inc.epoch, Cause: asCause(err, supervisor.CauseHandshake)})
			return
		}
		ref.sendParent(&messages.Opened{Epoch: inc.epoch})
	}, ref.startPanicked)
}

// discover lists what the server offers, and applies the subscriptions. Since
// 2026-07-28 the streams are opened first, so that no change is missed in between.
func (p *port) discover() {
	ref, inc, reconciler := p.ref, p.ref.inc, p.reconciler
	reconciler.begin()
	ref.rt.goSafe("port", func() {
		ctx, cancel := bounded(inc.spec.Timeouts.List)
		defer cancel()
		if inc.session.Info().Era == mcpvisor.EraModern {
			soon, cancel := context.WithTimeout(ctx, subscription.AckTimeout)
			reconciler.applyAtStart(soon)
			cancel()
		}
		found, err := discovery.Discover(ctx, ref.rt.listing(inc), inc.server, inc.spec.Limits)
		if err != nil {
			ref.sendParent(&messages.Failed{Epoch: inc.epoch, Cause: discoveryCause(ctx, inc, err)})
			return
		}
		if inc.session.Info().Era != mcpvisor.EraModern {
			reconciler.applyAtStart(ctx)
		}
		found = found.Offered(inc.spec.Tools)
		ref.sendSelf(&firstListsRead{catalog: found})
		ref.sendParent(&messages.Discovered{Epoch: inc.epoch, Catalog: found})
	}, ref.startPanicked)
}

func discoveryCause(ctx context.Context, inc *incarnation, err error) *supervisor.Cause {
	cause := asCause(err, supervisor.CauseProtocol)
	if ctx.Err() != nil && cause.Kind == supervisor.CauseProtocol {
		cause = &supervisor.Cause{Kind: supervisor.CauseTimeout, Err: err,
			Message: "server did not list what it offers in time; raise Timeouts.List if it is slow"}
	}
	if len(cause.Stderr) == 0 { // it often says why a list failed
		cause = cause.Clone()
		cause.Stderr = transport.StderrOf(inc.session)
	}
	return cause
}

func (r *portRef) startPanicked(v any) {
	r.sendParent(&messages.Failed{Epoch: r.inc.epoch, Cause: &supervisor.Cause{Kind: supervisor.CausePanic,
		Message: fmt.Sprintf("internal error while starting the server: %v", v)}})
}

// bounded is a context that ends after d, or only when it is cancelled if d is
// negative.
func bounded(d time.Duration) (context.Context, context.CancelFunc) {
	if d < 0 {
		return context.WithCancel(context.Background())
	}
	return context.WithTimeout(context.Background(), d)
}

// asCause is the cause in an error, or a new one of that kind.
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
