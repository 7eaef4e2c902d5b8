//go:build !race

package telemetry

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// allocationsOfCall are those of one call in this process, in all goroutines together. The
// race detector empties pools at random, so the test is not built with it.
func allocationsOfCall(ctx context.Context, t *testing.T, opts ...facade.Option) (typed, raw float64) {
	t.Helper()
	c, err := facade.New(opts...)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(context.Background())) }()
	require.NoError(t, c.Register(ctx, mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(mcptest.Script{}), Era: mcpvisor.EraLegacy}))
	args, text := map[string]any{"text": "hello"}, json.RawMessage(`{"text":"hello"}`)
	typed, _ = testutil.Allocations(2000, func() { _, err := c.CallTool(ctx, "s/echo", args); require.NoError(t, err) })
	raw, _ = testutil.Allocations(2000, func() { _, err := c.CallToolRaw(ctx, "s/echo", text); require.NoError(t, err) })
	return typed, raw
}

// A call with metrics has the allocations of a call without them.
func TestMetrics_allocations(t *testing.T) {
	ctx := context.Background()
	typed, raw := allocationsOfCall(ctx, t)
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	tel, err := newTelemetry(WithMeterProvider(provider), WithoutSpans())
	require.NoError(t, err)
	typedMetrics, rawMetrics := allocationsOfCall(ctx, t, facade.WithObserver(tel.observer(nil)))
	t.Logf("typed %.2f, with metrics %.2f; raw %.2f, with metrics %.2f", typed, typedMetrics, raw, rawMetrics)
	require.Less(t, typedMetrics, typed+0.5)
	require.Less(t, rawMetrics, raw+0.5)
}

// A trace costs a call few allocations, sampled or not. What a processor of spans costs is
// not included.
func TestSpans_allocations(t *testing.T) {
	ctx := context.Background()
	typed, raw := allocationsOfCall(ctx, t)
	for _, row := range []struct {
		name    string
		sampler sdktrace.Sampler
		budget  float64
	}{{"unsampled", sdktrace.NeverSample(), 6}, {"sampled", sdktrace.AlwaysSample(), 8}} {
		tel, err := newTelemetry(WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))),
			WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSampler(row.sampler))))
		require.NoError(t, err)
		typedSpans, rawSpans := allocationsOfCall(ctx, t, facade.WithObserver(tel.observer(nil)))
		t.Logf("%s: typed +%.2f, raw +%.2f", row.name, typedSpans-typed, rawSpans-raw)
		require.LessOrEqual(t, typedSpans, typed+row.budget+0.5, row.name)
		require.LessOrEqual(t, rawSpans, raw+row.budget+0.5, row.name)
	}
}
