package telemetry

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcpvisor/mcpvisor/gateway/clients"
)

// Option configures [Attach].
type Option func(*options)

type options struct {
	meters       metric.MeterProvider
	tracers      trace.TracerProvider
	withoutSpans bool
	sender       contextSender
	attributes   []attribute.KeyValue
	gateway      func() clients.Status
}

// WithGateway reports the clients of a gateway of the same program: status is called at each
// collection, such as Status of a clients.Registry. Default, and for nil: the metrics
// mcpvisor.gateway.* are not reported.
func WithGateway(status func() clients.Status) Option {
	return func(o *options) { o.gateway = status }
}

// WithMeterProvider sets where metrics go. Default, and for nil: the global provider of
// OpenTelemetry.
func WithMeterProvider(provider metric.MeterProvider) Option {
	return func(o *options) { o.meters = provider }
}

// WithAttributes adds attributes to every metric, such as which of several clients of the program
// it is about. Several clients on one provider need it: metrics of two servers with the same name
// are one series otherwise, and gauges show those of one client only. If a key is also one of
// this package, the attribute of this package wins. Use few values: each one multiplies the
// number of series. They are not set on spans. Default: none.
func WithAttributes(attributes ...attribute.KeyValue) Option {
	return func(o *options) { o.attributes = append(o.attributes, attributes...) }
}

// WithTracerProvider sets where spans go. Default, and for nil: the global provider of
// OpenTelemetry.
func WithTracerProvider(provider trace.TracerProvider) Option {
	return func(o *options) { o.tracers = provider }
}

// WithoutSpans makes no spans. The trace context of callers is sent anyway.
func WithoutSpans() Option {
	return func(o *options) { o.withoutSpans = true }
}

// WithBaggage sends the baggage of callers to the servers, in the member baggage of _meta.
// Default: it is not sent, since it can hold what servers must not see. Baggage that
// servers send is never taken over.
func WithBaggage() Option {
	return func(o *options) { o.sender.baggage = true }
}

// WithoutPropagation sends no trace context to the servers of these names, such as those of
// another company. Default: all get it.
func WithoutPropagation(servers ...string) Option {
	return func(o *options) {
		for _, name := range servers {
			o.sender.without[name] = true
		}
	}
}

// newTelemetry makes the instruments. An error is one of the provider of metrics.
func newTelemetry(opts ...Option) (*Telemetry, error) {
	o := options{sender: contextSender{without: map[string]bool{}}}
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	if o.meters == nil {
		o.meters = otel.GetMeterProvider()
	}
	if o.tracers == nil {
		o.tracers = otel.GetTracerProvider()
	}
	if o.withoutSpans {
		o.tracers = nil
	}
	i, err := newInstruments(o.meters, o.attributes)
	if err != nil {
		return nil, err
	}
	return &Telemetry{instruments: i, operations: newOperations(i), spans: newSpans(o.tracers), sender: o.sender, gateway: o.gateway}, nil
}
