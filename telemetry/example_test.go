package telemetry_test

import (
	"context"
	"fmt"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

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

// tracedClient is a client with one server. The recorder stands for an exporter.
func tracedClient(ctx context.Context) (client *facade.Client, provider *sdktrace.TracerProvider, spans *tracetest.SpanRecorder) {
	spans = tracetest.NewSpanRecorder()
	provider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	client, err := facade.New()
	if err != nil {
		panic(err)
	}
	if _, err = telemetry.Attach(client, telemetry.WithTracerProvider(provider)); err != nil {
		panic(err)
	}
	if err := client.Register(ctx, mcpvisor.ServerSpec{Name: "demo", InMemory: mcptest.InMemory(mcptest.Script{})}); err != nil {
		panic(err)
	}
	return client, provider, spans
}

// Each request has a span, below the span of its caller. The server can join the trace.
func ExampleWithTracerProvider() {
	client, provider, spans := tracedClient(context.Background())
	defer func() { _ = client.Close(context.Background()) }()
	ctx, turn := provider.Tracer("agent").Start(context.Background(), "turn")
	if _, err := client.CallTool(ctx, "demo/echo", map[string]any{"text": "hello"}); err != nil {
		panic(err)
	}
	turn.End()
	ended := spans.Ended()
	call := ended[len(ended)-2]
	fmt.Println(call.Name(), call.SpanKind(), call.Parent().SpanID() == turn.SpanContext().SpanID())
	// Output: tools/call echo client true
}

// A framework for agents has made a span for the execution of the tool. The call adds its
// attributes to that one.
func ExampleJoinSpan() {
	client, provider, spans := tracedClient(context.Background())
	defer func() { _ = client.Close(context.Background()) }()
	ctx, tool := provider.Tracer("agent").Start(context.Background(), "execute_tool echo")
	if _, err := client.CallTool(telemetry.JoinSpan(ctx), "demo/echo", map[string]any{"text": "hello"}); err != nil {
		panic(err)
	}
	tool.End()
	ended := spans.Ended()
	for _, kv := range ended[len(ended)-1].Attributes() {
		if kv.Key == "mcp.method.name" || kv.Key == "gen_ai.tool.name" {
			fmt.Println(kv.Key, kv.Value.AsString())
		}
	}
	// Output:
	// mcp.method.name tools/call
	// gen_ai.tool.name echo
}
