package telemetry

import (
	"context"
	"encoding/json"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// BenchmarkCall is a call over stdio with 64 callers, by what observes it:
//
//	go test ./telemetry -run - -bench Call -count 6
func BenchmarkCall(b *testing.B) {
	observed := func(b *testing.B, opts ...Option) []facade.Option {
		b.Helper()
		meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
		tel, err := newTelemetry(append(opts, WithMeterProvider(meters))...)
		if err != nil {
			b.Fatal(err)
		}
		return []facade.Option{facade.WithObserver(tel.observer(nil))}
	}
	traced := func(b *testing.B, sampler sdktrace.Sampler) []facade.Option {
		b.Helper()
		return observed(b, WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler))))
	}
	for _, row := range []struct {
		name string
		opts []facade.Option
	}{
		{"none", nil},
		{"metrics", observed(b, WithoutSpans())},
		{"unsampled", traced(b, sdktrace.NeverSample())},
		{"sampled", traced(b, sdktrace.AlwaysSample())},
	} {
		b.Run(row.name, func(b *testing.B) {
			ctx := context.Background()
			client, err := facade.New(row.opts...)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = client.Close(ctx) }()
			if err := client.Register(ctx, mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(mcptest.Script{}), Era: mcpvisor.EraLegacy}); err != nil {
				b.Fatal(err)
			}
			args := json.RawMessage(`{"text":"hello"}`)
			b.ReportAllocs()
			b.SetParallelism(32)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := client.CallToolRaw(ctx, "s/echo", args); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkObserver is what the metrics of one request cost, without the call, on all
// processors at a time.
func BenchmarkObserver(b *testing.B) {
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	tel, err := newTelemetry(WithoutSpans(), WithMeterProvider(meters))
	if err != nil {
		b.Fatal(err)
	}
	o, r := tel.observer(nil), answeredRequest("s", "echo")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			ctx, _ := o.RequestStarted(context.Background(), r.RequestStart)
			o.RequestEnded(ctx, r)
		}
	})
}
