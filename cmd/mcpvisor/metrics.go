package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/telemetry"
)

// metrics are the metrics of one client, for Prometheus.
type metrics struct {
	*telemetry.Telemetry
	provider *sdkmetric.MeterProvider
	registry *prometheus.Registry
}

// newMetrics makes metrics in a registry of their own. The client gets their observer, and
// is attached when it was made.
func newMetrics() (*metrics, error) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	if err != nil {
		return nil, err
	}
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	t, err := telemetry.New(telemetry.WithMeterProvider(provider))
	if err != nil {
		return nil, errors.Join(err, provider.Shutdown(context.Background()))
	}
	return &metrics{t, provider, registry}, nil
}

// handler serves the metrics in the format that the client asks for.
func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// option makes a client report its requests.
func (m *metrics) option() facade.Option { return facade.WithObserver(m.Observer()) }

// close ends the metrics. Call it when the client was closed.
func (m *metrics) close() error {
	return errors.Join(m.Close(), m.provider.Shutdown(context.Background()))
}
