package telemetry

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/monitor"
)

// Telemetry reports on one client. Close it after the client. Safe for concurrent use.
type Telemetry struct {
	instruments *instruments
	operations  *operations
	spans       *spans
	sender      contextSender
	gateway     func() clients.Status // nil without WithGateway

	// mu guards what follows.
	mu     sync.Mutex
	closed bool
	stop   func() error // ends what attach began; nil before
}

// Attach reports on client until Close: on its requests, as an observer of the client, and on its
// servers. Call it at any time, best before the first Register: requests that have begun are not
// measured, but events that the client still keeps are counted. If the client already has an
// observer, that one sees the requests, too, before this one. Errors: client is nil, or the
// provider of metrics failed.
func Attach(client *facade.Client, opts ...Option) (*Telemetry, error) {
	if client == nil {
		return nil, errors.New("telemetry: Attach needs a client")
	}
	t, err := newTelemetry(opts...)
	if err != nil {
		return nil, err
	}
	if err := t.attach(client); err != nil {
		return nil, err
	}
	relay.Of(client).UpdateObserver(func(now monitor.Observer) monitor.Observer { return t.observer(now) })
	return t, nil
}

// attach reports the servers of a client until Close.
func (t *Telemetry) attach(client *facade.Client) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := &collector{client: client, gateway: t.gateway, instruments: t.instruments}
	registration, err := t.instruments.meter.RegisterCallback(c.collect, t.instruments.observed()...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	events := relay.Of(client).WatchFrom(ctx, 0, slices.DeleteFunc(mcpvisor.EventKinds(), mcpvisor.EventKind.FromServer)...)
	l, last, done := newLifecycle(t.instruments), uint64(0), make(chan struct{})
	go func() { // owns l and last until done
		defer close(done)
		for e := range events {
			l.record(context.Background(), &e)
			last = max(last, e.Seq)
		}
	}()
	t.stop = func() error {
		cancel()
		<-done
		rest, _ := client.History().Events(last) // what the watch has not delivered
		for _, e := range rest {
			l.record(context.Background(), &e)
		}
		return registration.Unregister()
	}
	return nil
}

// Close ends what Attach began. Call it after the Close of the client, so that the ends of
// its servers are counted. It does not touch the providers. Further calls return nil.
func (t *Telemetry) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	t.closed = true
	if t.stop == nil {
		return nil
	}
	return t.stop()
}

// observer returns the observer that measures and traces the requests of a client. before
// sees them, too; nil for none.
func (t *Telemetry) observer(before monitor.Observer) monitor.Observer {
	if before == nil {
		return (*observer)(t)
	}
	return &secondObserver{before, (*observer)(t)}
}

// secondObserver shows each request to two observers.
type secondObserver struct {
	before monitor.Observer
	own    *observer
}

// RequestStarted implements monitor.Observer. Of the members of _meta, those of the second
// observer are sent if both have some.
func (o *secondObserver) RequestStarted(ctx context.Context, r monitor.RequestStart) (context.Context, []byte) {
	next, meta := o.startBefore(ctx, r)
	next, own := o.own.RequestStarted(next, r)
	if len(own) > 0 {
		meta = own
	}
	return next, meta
}

// panicKey is the key of a panic of the first observer at the start of a request. The client
// sees it at the end: without a span of its own, this one would end that of the caller.
type panicKey struct{}

func (o *secondObserver) startBefore(ctx context.Context, r monitor.RequestStart) (next context.Context, meta []byte) {
	defer func() {
		if v := recover(); v != nil {
			next, meta = context.WithValue(ctx, panicKey{}, v), nil
		}
	}()
	if next, meta = o.before.RequestStarted(ctx, r); next == nil {
		next = ctx
	}
	return next, meta
}

// RequestEnded implements monitor.Observer.
func (o *secondObserver) RequestEnded(ctx context.Context, r monitor.RequestEnd) {
	o.own.RequestEnded(ctx, r)
	if v := ctx.Value(panicKey{}); v != nil {
		panic(v) // the client logs it
	}
	o.before.RequestEnded(ctx, r)
}

// observer is a Telemetry as the client sees it.
type observer Telemetry

// RequestStarted implements monitor.Observer.
func (o *observer) RequestStarted(ctx context.Context, r monitor.RequestStart) (context.Context, []byte) {
	if o.spans.tracer != nil {
		ctx = o.spans.start(ctx, &r)
	}
	if r.Incoming {
		return ctx, nil
	}
	return ctx, o.sender.members(ctx, r.Server)
}

// RequestEnded implements monitor.Observer.
func (o *observer) RequestEnded(ctx context.Context, r monitor.RequestEnd) {
	o.operations.ended(ctx, &r)
	if o.spans.tracer != nil {
		o.spans.end(ctx, &r)
	}
}
