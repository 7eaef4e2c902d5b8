package main

import (
	"context"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/telemetry"
)

// observeSection compares clients by what observes them, and these are their names.
const (
	observeSection    = "observe"
	observedByNone    = "no observer"
	observedByMetrics = "metrics"
)

// observedDriver calls a server through a client that is observed.
type observedDriver struct {
	*facadeDriver
	observer string
}

func (a *observedDriver) name() string { return a.observer }

// compareObservers compares what package telemetry costs a call of 64 callers, with the SDK
// of OpenTelemetry. What an exporter of spans costs is not in it.
func compareObservers(ctx context.Context) error {
	const callers = 64
	t := stdioTarget("fast")
	w := newTable("Small echo over stdio, fast server, 64 callers, by what observes the client", append([]string{"call"}, callColumns...)...)
	for _, raw := range []bool{false, true} {
		var drivers []driver
		for _, o := range []struct {
			name    string
			sampler sdktrace.Sampler
		}{{observedByNone, nil}, {observedByMetrics, nil}, {"spans, not sampled", sdktrace.NeverSample()}, {"spans, sampled", sdktrace.AlwaysSample()}} {
			a, err := newFacadeWith(ctx, t, raw, mcpvisor.EraAuto)
			if err != nil {
				return err
			}
			defer a.close()
			if err := observe(a.c, o.name, o.sampler); err != nil {
				return err
			}
			drivers = append(drivers, &observedDriver{a, o.name})
		}
		got, err := compare(ctx, drivers, t, callers, max(9, *rounds), *duration, echoLoad)
		if err != nil {
			return err
		}
		label := clientOurs
		if raw {
			label = clientRaw
		}
		rows(w, label, drivers, got)
	}
	return w.end()
}

// observe makes a client report metrics, and spans if there is a sampler.
func observe(c *facade.Client, name string, sampler sdktrace.Sampler) error {
	if name == observedByNone {
		return nil
	}
	opts := []telemetry.Option{telemetry.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())))}
	if sampler == nil {
		opts = append(opts, telemetry.WithoutSpans())
	} else {
		opts = append(opts, telemetry.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler))))
	}
	_, err := telemetry.Attach(c, opts...)
	return err
}
