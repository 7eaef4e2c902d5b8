package telemetry_test

import (
	"context"
	"fmt"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/telemetry"
)

// A host chooses where metrics go. Here it reads them itself; a service passes a provider
// with the exporter of Prometheus or OTLP, or sets the global one.
func ExampleAttach() {
	ctx := context.Background()
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	client, err := facade.New()
	if err != nil {
		panic(err)
	}
	tel, err := telemetry.Attach(client, telemetry.WithMeterProvider(provider))
	if err != nil {
		panic(err)
	}
	defer func() { _, _ = client.Close(ctx), tel.Close() }()

	if err := client.Register(ctx, mcpvisor.ServerSpec{Name: "demo", InMemory: mcptest.InMemory(mcptest.Script{})}); err != nil {
		panic(err)
	}
	if _, err := client.CallTool(ctx, "demo/echo", map[string]any{"text": "hello"}); err != nil {
		panic(err)
	}

	var data metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &data); err != nil {
		panic(err)
	}
	for _, m := range data.ScopeMetrics[0].Metrics {
		if h, ok := m.Data.(metricdata.Histogram[float64]); ok && m.Name == "mcp.client.operation.duration" {
			for _, p := range h.DataPoints {
				if tool, ok := p.Attributes.Value("gen_ai.tool.name"); ok {
					fmt.Println(m.Name, m.Unit, tool.AsString(), p.Count)
				}
			}
		}
	}
	// Output: mcp.client.operation.duration s echo 1
}
