package telemetry

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/metric"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// Telemetry reports on one client. Close it when the client was closed. Safe for
// concurrent use.
type Telemetry struct {
	instruments *instruments
	operations  *operations
	spans       *spans
	sender      contextSender
	flushes     metric.Registration // of the callback that flushes the durations; does not change

	// mu guards what follows.
	mu sync.Mutex
	// attached: Attach was called. stop ends what it started; nil before.
	attached, closed bool
	stop             func() error
}

// Observer measures and traces the requests of a client: pass it to facade.WithObserver.
func (t *Telemetry) Observer() mcpvisor.Observer { return (*observer)(t) }

// Attach reports the servers of a client until Close. Call it once, at any time: events
// that the client still keeps are counted, too. It fails if it was called before, or after
// Close.
func (t *Telemetry) Attach(client *facade.Client) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case client == nil:
		return errors.New("telemetry: Attach needs a client")
	case t.closed:
		return errors.New("telemetry: Attach after Close")
	case t.attached:
		return errors.New("telemetry: a client is attached already; make one Telemetry for each client")
	}
	c := &collector{client, t.instruments}
	registration, err := t.instruments.meter.RegisterCallback(c.collect, t.instruments.observed()...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	events := client.WatchFrom(ctx, 0, lifecycleKinds...)
	l, last, done := newLifecycle(t.instruments), uint64(0), make(chan struct{})
	go func() { // owns l and last until done
		defer close(done)
		for e := range events {
			l.record(context.Background(), &e)
			last = max(last, e.Seq)
		}
	}()
	t.attached = true
	t.stop = func() error {
		cancel()
		<-done
		rest, _ := client.RecentEvents(last) // what the watch did not deliver any more
		for _, e := range rest {
			l.record(context.Background(), &e)
		}
		return registration.Unregister()
	}
	return nil
}

// Close ends what Attach began, and records the durations that are held back. Call it after
// the Close of the client, so that the ends of its servers are counted. It does not touch
// the providers. Further calls return nil.
func (t *Telemetry) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	t.closed = true
	t.operations.outgoing.flush(true)
	err := t.flushes.Unregister()
	if t.stop != nil {
		err = errors.Join(t.stop(), err)
	}
	return err
}

// observer is a Telemetry as the client sees it.
type observer Telemetry

// RequestStarted implements mcpvisor.Observer.
func (o *observer) RequestStarted(ctx context.Context, r mcpvisor.RequestStart) (context.Context, []byte) {
	if o.spans.tracer != nil {
		ctx = o.spans.start(ctx, &r)
	}
	if r.Incoming {
		return ctx, nil
	}
	return ctx, o.sender.members(ctx, r.Server)
}

// RequestEnded implements mcpvisor.Observer.
func (o *observer) RequestEnded(ctx context.Context, r mcpvisor.RequestEnd) {
	o.operations.ended(ctx, &r)
	if o.spans.tracer != nil {
		o.spans.end(ctx, &r)
	}
}
