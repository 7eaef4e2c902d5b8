package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// A wish that was not granted is put to the server again after 1, 2, 4 … 600 s.
const firstSubscriptionRetry, maxSubscriptionRetry = time.Second, 10 * time.Minute

// reconcileSubscriptions tells a port that the wishes have changed. Without a reply it is about
// none in particular. With one it is about a resource, or about the log level;
// the reply is nil when the server has accepted just that.
type reconcileSubscriptions struct {
	messages.Letter
	uri   string
	on    bool
	level string
	reply chan<- error
}

// subscriptionsReconciled tells a port that its server was told what was wished up to a version.
// pending: not everything was granted, and may be at another time.
type subscriptionsReconciled struct {
	messages.Letter
	version uint64
	pending bool
}

// retrySubscriptions is due when what was not granted is tried again.
type retrySubscriptions struct{ messages.Letter }

// granter has a server told what the host wishes, once at a time. It belongs to
// the port; the telling is the [listener]'s, in a goroutine of its own.
type granter struct {
	granting bool
	version  uint64                    // that the server was told of
	wishing  []*reconcileSubscriptions // those who wait for an answer
	pending  bool
	pause    time.Duration
	retry    *time.Timer
}

// wished takes a wish. Before the server is ready it is told anyway, and what
// comes too late for that is made up for when its readiness is published.
func (p *port) wished(w *reconcileSubscriptions) {
	if w.reply != nil {
		p.wishing = append(p.wishing, w)
	}
	if len(p.wishing) > 0 || p.inc.desired.changedSince(p.version) {
		p.grant(false)
	}
}

// grant tells the server what it does not know yet; anew also what it has not
// granted before.
func (p *port) grant(anew bool) {
	if !p.ready || p.granting {
		return // seen to at the end, or when it is ready
	}
	p.granting = true
	p.stopGranting()
	self, wishing := p.self, p.wishing
	p.wishing = nil
	p.rt.goSafe("port", func() {
		ctx, cancel := bounded(p.inc.spec.Timeouts.Call)
		defer cancel()
		p.rt.system.Root.Send(self, p.apply(ctx, wishing, anew))
	}, func(v any) {
		for _, w := range wishing {
			answer(w.reply, p.asError(fmt.Errorf("internal error: %v", v)))
		}
		_, _, version := p.inc.desired.snapshot() // not again at once
		p.rt.system.Root.Send(self, &subscriptionsReconciled{version: version, pending: true})
	})
}

func (p *port) granted(m *subscriptionsReconciled) {
	p.granting, p.pending = false, m.pending
	p.version = max(p.version, m.version)
	if !m.pending {
		p.pause = 0
	}
	p.goOnGranting()
}

// goOnGranting sees to what has come meanwhile, and plans another try of what was
// not granted.
func (p *port) goOnGranting() {
	switch {
	case !p.ready || p.granting || p.retry != nil:
	case len(p.wishing) > 0 || p.inc.desired.changedSince(p.version):
		p.grant(false)
	case p.pending:
		p.pause = min(max(2*p.pause, firstSubscriptionRetry), maxSubscriptionRetry)
		self := p.self
		p.retry = time.AfterFunc(p.pause, func() { p.rt.system.Root.Send(self, &retrySubscriptions{}) })
	}
}

func (p *port) stopGranting() {
	if p.retry != nil {
		p.retry.Stop()
		p.retry = nil
	}
}

// Subscribe asks a server to tell about updates of a resource, or not to any
// more: this incarnation, and each one after it. A server that is not ready is
// told when it is. What it refuses is not wished any more.
func (rt *Runtime) Subscribe(ctx context.Context, v *View, uri string, on bool) error {
	rt.desiredSubscriptions(v.Gen).set(uri, on)
	return rt.requestReconcile(ctx, v, &reconcileSubscriptions{uri: uri, on: on})
}

// SetLogLevel asks a server for log messages of that severity or above. A level
// that it refuses gives way to the one before.
func (rt *Runtime) SetLogLevel(ctx context.Context, v *View, level string) error {
	rt.desiredSubscriptions(v.Gen).setLevel(level)
	return rt.requestReconcile(ctx, v, &reconcileSubscriptions{level: level})
}

// requestReconcile has a server told of a wish that was noted just now. Whatever becomes
// ready after that knows it: see [Runtime.remind].
func (rt *Runtime) requestReconcile(ctx context.Context, v *View, w *reconcileSubscriptions) error {
	if now := rt.Snapshot().Server(v.Name); now != nil && now.Gen == v.Gen {
		v = now
	}
	if v.State != supervisor.StateReady {
		return nil
	}
	if v.standby != nil {
		rt.system.Root.Send(v.standby.port, &reconcileSubscriptions{})
	}
	err := rt.requestPort(ctx, v, func(reply chan<- error) any {
		w.reply = reply
		return w
	})
	if e := (*mcpvisor.Error)(nil); err != nil && v.current.session.Cause() != nil && errors.As(err, &e) && e.Kind != mcpvisor.KindCanceled {
		return nil // the next incarnation is told
	}
	return err
}

// notifyPorts has the incarnations that a view shows compare what is wished with what
// they know. The view is published by then: who makes a wish later sees it.
func (rt *Runtime) notifyPorts(v *View) {
	if v.State != supervisor.StateReady {
		return
	}
	for _, inc := range []*incarnation{v.current, v.standby} {
		if inc != nil && inc.port != nil {
			rt.system.Root.Send(inc.port, &reconcileSubscriptions{})
		}
	}
}
