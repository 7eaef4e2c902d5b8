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

func TestBatcher(t *testing.T) {
	setUp := func(t *testing.T) (*Telemetry, sdkmetric.Reader, func(context.Context)) {
		reader := sdkmetric.NewManualReader()
		tel, err := New(WithoutSpans(), WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
		require.NoError(t, err)
		r := answeredRequest("s", "echo")
		return tel, reader, func(ctx context.Context) { tel.Observer().RequestEnded(ctx, r) }
	}
	t.Run("a collection misses nothing", func(t *testing.T) {
		tel, reader, end := setUp(t)
		for n := 1; n <= 3*batchSize; n += 7 {
			for range 7 {
				end(context.Background())
			}
			got, _ := durationsOf(t, reader)
			require.Equal(t, n+6, got)
		}
		require.NoError(t, tel.Close())
	})
	t.Run("after Close", func(t *testing.T) {
		tel, reader, end := setUp(t)
		end(context.Background())
		require.NoError(t, tel.Close())
		got, _ := durationsOf(t, reader)
		require.Equal(t, 1, got, "Close flushes")
		end(context.Background())
		got, _ = durationsOf(t, reader)
		require.Equal(t, 2, got, "nothing is held back after Close")
		require.NoError(t, tel.Close())
	})
	t.Run("a sampled span can become an exemplar", func(t *testing.T) {
		tel, reader, end := setUp(t)
		end(trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled})))
		end(context.Background())
		got, exemplars := durationsOf(t, reader)
		require.Equal(t, []int{2, 1}, []int{got, exemplars})
		require.NoError(t, tel.Close())
	})
	t.Run("collections, Close and requests at a time", func(t *testing.T) {
		tel, reader, end := setUp(t)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 2 * batchSize {
					end(context.Background())
				}
			})
		}
		wg.Go(func() {
			for range 20 {
				_, _ = durationsOf(t, reader)
			}
			require.NoError(t, tel.Close())
		})
		wg.Wait()
		got, _ := durationsOf(t, reader)
		require.Equal(t, 16*batchSize, got)
	})
}
