package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors/internal/subscription"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/internal/decisive"
	"github.com/mcpvisor/mcpvisor/internal/hostlimit"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
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
	missed     *missedUpdates
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
	p := &port{ref: ref, prober: &prober{port: ref}, refresher: &refresher{port: ref}, missed: &missedUpdates{publish: ref.publishUpdated}}
	p.reconciler = newSubscriptionReconciler(ref, p.refresher, p.missed)
	return p
}

// Receive implements actor.Actor.
func (p *port) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		p.ref.self, p.ref.parent = c.Self(), c.Parent()
		p.ref.inc.session.OnNotice(p.onNotice)
		p.ref.inc.session.OnServerRequest(p.ref.observeServerRequest)
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
		if m.Now {
			p.ref.inc.session.Kill(m.Cause)
		} else {
			p.ref.inc.session.Abort(m.Cause)
		}
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
	p.missed.stop()
}

// open opens the session: spawn or connect, and negotiate. A subprocess waits until it may
// start; that wait is not part of Timeouts.Start.
func (p *port) open() {
	ref, inc := p.ref, p.ref.inc
	ref.rt.goSafe("port", func() {
		if s := inc.spec.Stdio; s != nil {
			defer ref.rt.starts.acquire(s.Command, s.Args, inc.session.Dead())()
		}
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
		if inc.session.Info().Era == mcpvisor.EraModern {
			soon, cancel := bounded(subscription.StartAckTimeout) // not of the time for the lists
			reconciler.applyAtStart(soon)
			cancel()
		}
		ctx, cancel := bounded(inc.spec.Timeouts.List)
		defer cancel()
		found, err := discovery.Discover(ctx, ref.rt.listing(inc), inc.server, inc.spec.Limits)
		if err != nil {
			ref.sendParent(&messages.Failed{Epoch: inc.epoch, Cause: discoveryCause(ctx, inc, err)})
			return
		}
		if inc.session.Info().Era != mcpvisor.EraModern {
			reconciler.applyAtStart(ctx)
		}
		found = ref.rt.offered(inc.spec, found, inc.session.Info().Instructions, catalog.AllLists)
		ref.sendSelf(&firstListsRead{catalog: found})
		ref.sendParent(&messages.Discovered{Epoch: inc.epoch, Catalog: found})
	}, ref.startPanicked)
}

func discoveryCause(ctx context.Context, inc *incarnation, err error) *supervisor.Cause {
	cause := asCause(err, supervisor.CauseProtocol)
	if ctx.Err() != nil && cause.Kind == supervisor.CauseProtocol {
		cause = &supervisor.Cause{Kind: supervisor.CauseTimeout, Err: cause.Err,
			Message: "server did not list what it offers in time; raise Timeouts.List if it is slow"}
	}
	if len(cause.Stderr) == 0 { // it often says why a list failed
		cause = cause.Clone()
		cause.Stderr = inc.session.Stderr()
		cause = decisive.Lead(cause, true)
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
	return overdue.WithTimeout(context.Background(), d)
}

// asCause is the cause in an error, or a new one of that kind. It is small enough to be
// kept.
func asCause(err error, kind supervisor.CauseKind) *supervisor.Cause {
	var c *supervisor.Cause
	if errors.As(err, &c) {
		return transport.KeptCause(c)
	}
	c = &supervisor.Cause{Kind: kind, Err: err, Message: err.Error()}
	if errors.Is(err, mcpvisor.ErrAuthRequired) {
		c.Kind, c.Permanent = supervisor.CauseAuth, true
	}
	return transport.KeptCause(c)
}

// Refresh reads the lists of a server again, and returns when the result is published. Those of its standby are read, too.
func (rt *Runtime) Refresh(ctx context.Context, v *View) error {
	if v.standby != nil && v.standby.port != nil {
		rt.send(v.standby.port, &refreshNow{reply: make(chan error, 1)})
	}
	return rt.requestPort(ctx, v, func(reply chan<- error) messages.Message { return &refreshNow{reply: reply} })
}

// Subscribe asks a server to announce updates of a resource (on), or to stop that: this
// incarnation, and each one after it. A server that is not ready receives the request
// when it is. A subscription that the server rejects is removed from the desired state.
func (rt *Runtime) Subscribe(ctx context.Context, v *View, uri string, on bool) error {
	rt.desiredOf(v.Gen).SetResource(uri, on)
	return rt.requestReconcile(ctx, v, subscription.Request{URI: uri, On: on})
}

// SetLogLevel asks a server for log messages of that severity or above. If the server
// rejects the level, the one before stays in force.
func (rt *Runtime) SetLogLevel(ctx context.Context, v *View, level string) error {
	rt.desiredOf(v.Gen).SetLevel(level)
	return rt.requestReconcile(ctx, v, subscription.Request{Level: level})
}

// requestReconcile applies a change that was just made to the desired state, and waits
// for the answer of the server in service. An incarnation that becomes ready
// later applies the change by itself; see notifyPorts.
func (rt *Runtime) requestReconcile(ctx context.Context, v *View, request subscription.Request) error {
	if now := rt.Snapshot().Server(v.Name); now != nil && now.Gen == v.Gen {
		v = now
	}
	if v.State != supervisor.StateReady {
		return nil
	}
	if v.standby != nil {
		rt.send(v.standby.port, &reconcileSubscriptions{})
	}
	err := rt.requestPort(ctx, v, func(reply chan<- error) messages.Message {
		request.Reply = reply
		return &reconcileSubscriptions{request: request}
	})
	e := (*mcpvisor.Error)(nil)
	if v.current.session.Cause() == nil || !errors.As(err, &e) || e.Kind == mcpvisor.ErrCanceled {
		return err
	}
	return nil // the next incarnation applies it
}

// notifyPorts lets the incarnations of a view compare the desired state with what they
// have applied. The view is published by then: a later change of the desired state sees
// it, and notifies them itself. So no change is missed in between.
func (rt *Runtime) notifyPorts(v *View) {
	if v.State != supervisor.StateReady {
		return
	}
	for _, inc := range []*incarnation{v.current, v.standby} {
		if inc != nil && inc.port != nil {
			rt.send(inc.port, &reconcileSubscriptions{})
		}
	}
}

// requestPort sends a message to the port of a server that is ready, and waits for the
// reply, the end of the session, or the end of ctx.
func (rt *Runtime) requestPort(ctx context.Context, v *View, message func(reply chan<- error) messages.Message) error {
	if v.State != supervisor.StateReady || v.current.port == nil {
		return v.Unavailable()
	}
	reply := make(chan error, 1)
	rt.send(v.current.port, message(reply))
	select {
	case err := <-reply:
		if err == nil {
			return nil
		}
		return v.current.ownError(err)
	case <-v.current.session.Dead():
		return v.current.unavailable()
	case <-ctx.Done():
		return &mcpvisor.Error{Server: v.Name, Gen: v.Gen, Epoch: v.current.epoch, Kind: mcpvisor.ErrCanceled,
			Outcome: mcpvisor.OutcomeUnknown, Cause: context.Cause(ctx)}
	}
}

// probePause is the shortest time between two probes, unless Probe.Interval or Probe.Timeout is shorter.
const probePause = time.Second

// prober asks a ready server whether it still answers, after it has been silent for
// Probe.Interval. Probe.Failures failed probes in a row end the session. Owned by the
// port's actor goroutine; a probe itself runs in a goroutine of its own.
type prober struct {
	port   *portRef
	timer  *time.Timer
	failed int // probes in a row
}

func (p *prober) start() { p.arm(p.port.inc.spec.Probe.Interval) }

func (p *prober) stop() { stopTimer(&p.timer) }

// arm sets the timer of the next probe. A negative interval switches probes off.
func (p *prober) arm(after time.Duration) {
	if p.port.inc.spec.Probe.Interval < 0 {
		return
	}
	p.timer = p.port.afterFunc(after, &messages.ProbeDue{})
}

// probe sends a probe, unless the server has sent something within the interval. Any
// complete message counts as a sign of life, even one that arrives during the probe.
func (p *prober) probe() {
	interval := p.port.inc.spec.Probe.Interval
	if quiet := time.Since(p.port.inc.session.LastReceived()); 0 <= quiet && quiet < interval && p.failed == 0 {
		p.arm(interval - quiet)
		return
	}
	port, inc := p.port, p.port.inc
	port.rt.goSafe("port", func() {
		started, last := time.Now(), inc.session.LastReceived()
		ctx, cancel := bounded(inc.spec.Probe.Timeout)
		defer cancel()
		err := transport.Probe(ctx, inc.session)
		if err != nil && ctx.Err() != nil && !inc.session.LastReceived().Equal(last) {
			err = nil // no answer came in time: the server is busy, not dead
		}
		port.sendSelf(&messages.Probed{Err: err, Took: time.Since(started)})
	}, func(v any) {
		port.sendSelf(&messages.Probed{Err: fmt.Errorf("internal error in a probe: %v", v)})
	})
}

// onProbed counts the outcome of a probe. A failure is followed by the next probe at once; by one after a
// pause if it came fast: a proxy that refuses everything for a moment must not spend all failures.
func (p *prober) onProbed(m *messages.Probed) {
	probe := p.port.inc.spec.Probe
	switch {
	case hostlimit.Reached(m.Err): // nothing was asked
		p.arm(probe.Interval)
		return
	case m.Err == nil:
		p.failed = 0
		p.arm(probe.Interval)
		return
	}
	if p.failed++; p.failed < probe.Failures {
		p.arm(max(min(probe.Interval, probe.Timeout, probePause)-m.Took, 0))
		return
	}
	cause := transport.ProbeCause(p.failed, m.Err)
	cause.Stderr = p.port.inc.session.Stderr()
	p.port.inc.session.Abort(cause)
}
