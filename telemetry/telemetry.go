package telemetry

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// Telemetry reports on one client. Close it when the client was closed. Safe for
// concurrent use.
type Telemetry struct {
	instruments *instruments
	operations  *operations

	// mu guards what follows.
	mu sync.Mutex
	// attached: Attach was called. stop ends what it started; nil before, and after Close.
	attached, closed bool
	stop             func() error
}

// Option configures New.
type Option func(*options)

type options struct {
	meters metric.MeterProvider
}

// WithMeterProvider sets where metrics go. Default, and for nil: the global provider of
// OpenTelemetry.
func WithMeterProvider(provider metric.MeterProvider) Option {
	return func(o *options) { o.meters = provider }
}

// New makes the instruments. Pass its Observer to facade.New, and the client to Attach.
// An error is one of the provider of metrics.
func New(opts ...Option) (*Telemetry, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	if o.meters == nil {
		o.meters = otel.GetMeterProvider()
	}
	i, err := newInstruments(o.meters)
	if err != nil {
		return nil, err
	}
	return &Telemetry{instruments: i, operations: newOperations(i)}, nil
}

// Observer measures the requests of a client: pass it to facade.WithObserver.
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

// Close ends what Attach began. Call it after the Close of the client, so that the ends of
// its servers are counted. It does not touch the providers. Further calls return nil.
func (t *Telemetry) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	stop := t.stop
	t.closed, t.stop = true, nil
	if stop == nil {
		return nil
	}
	return stop()
}

// observer is a Telemetry as the client sees it.
type observer Telemetry

// RequestStarted implements mcpvisor.Observer.
func (o *observer) RequestStarted(ctx context.Context, _ mcpvisor.RequestStart) (context.Context, []byte) {
	return ctx, nil
}

// RequestEnded implements mcpvisor.Observer.
func (o *observer) RequestEnded(ctx context.Context, r mcpvisor.RequestEnd) {
	o.operations.ended(ctx, &r)
}
