package daemon

import (
	"context"
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/telemetry"
)

// maxSeries bounds the series of each metric. Each server has up to 14 of one metric, one for
// each kind of cause, and the SDK's own limit of 2,000 would do for 142 servers.
const maxSeries = 100_000

type clientMetrics struct {
	*telemetry.Telemetry
	provider *sdkmetric.MeterProvider
	registry *prometheus.Registry
}

// newMetrics measures a client, in a registry of its own, the hosts that use it, whether its
// configuration is usable, and what more collects.
func newMetrics(c *facade.Client, usableConfig func() float64, hosts *clients.Registry, more ...prometheus.Collector) (*clientMetrics, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "mcpvisor_config_usable",
		Help: "1 if the files and all their entries could be used when they were read last, else 0."}, usableConfig))
	registry.MustRegister(more...)
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	if err != nil {
		return nil, err
	}
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithCardinalityLimit(maxSeries),
		sdkmetric.WithResource(resource.NewSchemaless(attribute.String("service.name", "mcpvisor"), attribute.String("service.version", facade.Version()))))
	t, err := telemetry.Attach(c, telemetry.WithMeterProvider(provider), telemetry.WithGateway(hosts.Status))
	if err != nil {
		return nil, errors.Join(err, provider.Shutdown(context.Background()))
	}
	return &clientMetrics{t, provider, registry}, nil
}

// Handler serves the metrics in the format that the client asks for.
func (m *clientMetrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Close ends the metrics. Call it when the client was closed.
func (m *clientMetrics) Close() error {
	return errors.Join(m.Telemetry.Close(), m.provider.Shutdown(context.Background()))
}
