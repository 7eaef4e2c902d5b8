// Package export gives what a run measures to Prometheus, and metrics and traces to a collector of OpenTelemetry if the
// environment names one.
package export

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/telemetry"
)

// stopTimeout is how long the last spans, and the last metrics, may take to be exported.
const stopTimeout = 2 * time.Second

// maxSeries bounds the series of each metric. Each server has up to 14 of one metric, one for
// each kind of cause, and the SDK's own limit of 2,000 would do for 142 servers.
const maxSeries = 100_000

// Source is what is measured beside a client.
type Source struct {
	Hosts        func() clients.Status
	UsableConfig func() float64
	Reloads      func() map[string]int64 // by result; nil: the files are not read again
	Collectors   []prometheus.Collector  // further metrics, for Prometheus only
}

// Metrics are those of one client.
type Metrics struct {
	telemetry *telemetry.Telemetry // nil until it is attached
	registry  *prometheus.Registry
	stop      []func(context.Context) error // of the providers
	flush     func(context.Context) error   // of that of the metrics; nil if they are not exported
	out       *OTLP                         // nil without one
}

// Measure measures a client, the hosts that use it, its configuration and this process, for Prometheus in a registry of its
// own and for the collector of out, nil for none. It traces requests if out has spans.
func Measure(c *facade.Client, of Source, out *OTLP) (*Metrics, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(append(of.Collectors, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))...)
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	if err != nil {
		return nil, err
	}
	about, _ := newResource() // OpenOTLP has told what is wrong with it
	readers := []sdkmetric.Option{sdkmetric.WithReader(reader), sdkmetric.WithCardinalityLimit(maxSeries), sdkmetric.WithResource(about)}
	spans := telemetry.WithoutSpans()
	m := &Metrics{registry: registry, out: out}
	if out != nil && out.metrics != nil {
		readers = append(readers, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(out.metrics)))
	}
	if out != nil && out.spans != nil {
		tracers := sdktrace.NewTracerProvider(sdktrace.WithBatcher(out.spans), sdktrace.WithResource(about))
		spans = telemetry.WithTracerProvider(tracers)
		m.stop = append(m.stop, tracers.Shutdown)
	}
	meters := sdkmetric.NewMeterProvider(readers...)
	m.stop = append(m.stop, meters.Shutdown)
	if out != nil && out.metrics != nil {
		m.flush = meters.ForceFlush
	}
	err = of.measure(meters.Meter("github.com/mcpvisor/mcpvisor/cmd/mcpvisor"))
	if err == nil {
		m.telemetry, err = telemetry.Attach(c, telemetry.WithMeterProvider(meters), telemetry.WithGateway(of.Hosts), spans)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// measure reports the configuration.
func (of *Source) measure(meter metric.Meter) error {
	_, err := meter.Float64ObservableGauge("mcpvisor.config.usable", metric.WithDescription("1 if the files and all their entries could be used when they were read last, else 0."),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			o.Observe(of.UsableConfig())
			return nil
		}))
	if err != nil || of.Reloads == nil {
		return err
	}
	_, err = meter.Int64ObservableCounter("mcpvisor.config.reloads", metric.WithUnit("{reload}"), metric.WithDescription("How often the files were read again, by result."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			for result, n := range of.Reloads() {
				o.Observe(n, metric.WithAttributes(attribute.String("mcpvisor.reload.result", result)))
			}
			return nil
		}))
	return err
}

// Handler serves the metrics in the format that the client asks for.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Flush exports what is observed of the servers. Call it before the client is closed, which ends them. It does nothing for nil.
func (m *Metrics) Flush() {
	if m == nil || m.flush == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	_ = m.flush(ctx) // the last export says it, too
}

// Close ends the metrics and spans, and exports the last of them. Call it when the client was closed.
func (m *Metrics) Close() (err error) {
	if m.telemetry != nil {
		err = m.telemetry.Close()
	}
	if m.out != nil {
		m.out.ended.Store(true)
	}
	for _, stop := range m.stop {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		err = errors.Join(err, stop(ctx))
		cancel()
	}
	return err
}
