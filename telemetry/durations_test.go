package telemetry

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"
)

// durationsOf counts the durations that a reader collects, and their exemplars.
func durationsOf(t *testing.T, reader sdkmetric.Reader) (durations, exemplars int) {
	t.Helper()
	var collected metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &collected))
	for _, scope := range collected.ScopeMetrics {
		for _, m := range scope.Metrics {
			if h, ok := m.Data.(metricdata.Histogram[float64]); ok && m.Name == nameClientOperation {
				for _, point := range h.DataPoints {
					durations += int(point.Count)
					exemplars += len(point.Exemplars)
				}
			}
		}
	}
	return durations, exemplars
}

// newDurations returns a reader, and a function that ends an answered request.
func newDurations(t *testing.T) (*Telemetry, sdkmetric.Reader, func(context.Context)) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	tel, err := newTelemetry(WithoutSpans(), WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
	require.NoError(t, err)
	r := answeredRequest("s", "echo")
	return tel, reader, func(ctx context.Context) { tel.observer(nil).RequestEnded(ctx, r) }
}

// A collection has every request that ended before it, and so has one after Close.
func TestDurations_collected(t *testing.T) {
	tel, reader, end := newDurations(t)
	for n := range 10 {
		if n == 5 {
			require.NoError(t, tel.Close())
		}
		end(context.Background())
		got, _ := durationsOf(t, reader)
		require.Equal(t, n+1, got)
	}
	require.NoError(t, tel.Close())
}

func TestDurations_sampled_span_becomes_an_exemplar(t *testing.T) {
	_, reader, end := newDurations(t)
	end(trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled})))
	end(context.Background())
	got, exemplars := durationsOf(t, reader)
	require.Equal(t, []int{2, 1}, []int{got, exemplars})
}

func TestDurations_requests_and_collections_at_a_time(t *testing.T) {
	_, reader, end := newDurations(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				end(context.Background())
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			_, _ = durationsOf(t, reader)
		}
	})
	wg.Wait()
	got, _ := durationsOf(t, reader)
	require.Equal(t, 4000, got)
}
