package monitor

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor/internal/latency"
)

func TestServerStderr_After(t *testing.T) {
	s := ServerStderr{Total: 9, First: []string{"1", "2"}, Lines: []string{"7", "8", "9"}}
	for _, c := range []struct {
		seen    int64
		want    []string
		dropped int64
	}{
		{0, []string{"7", "8", "9"}, 6}, {4, []string{"7", "8", "9"}, 2}, {6, []string{"7", "8", "9"}, 0},
		{8, []string{"9"}, 0}, {9, []string{}, 0}, {20, []string{}, 0}, {-3, []string{"7", "8", "9"}, 6},
	} {
		lines, dropped := s.After(c.seen)
		require.Equal(t, c.want, lines, "after %d", c.seen)
		require.Equal(t, c.dropped, dropped, "after %d", c.seen)
	}
	lines, dropped := ServerStderr{}.After(0)
	require.Empty(t, lines)
	require.Zero(t, dropped)
}

// snapshotOf is a histogram of these durations.
func snapshotOf(durations []time.Duration) (h Histogram) {
	var r latency.Recorder
	for _, d := range durations {
		r.Record(d)
	}
	r.Each(func(upTo time.Duration, count int64) {
		h.Count += count
		h.Buckets = append(h.Buckets, HistogramBucket{UpTo: upTo, Count: count})
	})
	h.Sum, h.Max = r.Sum(), r.Max()
	return h
}

// Each estimate is as near to the exact quantile as its comment says.
func TestHistogram_quantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		durations := rapid.SliceOfN(rapid.Map(rapid.Int64Range(0, int64(time.Hour)), func(n int64) time.Duration { return time.Duration(n) }), 1, 200).Draw(t, "durations")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		h := snapshotOf(durations)
		slices.Sort(durations)
		exact := durations[max(int(math.Ceil(q*float64(len(durations)))), 1)-1]
		estimate := h.Quantile(q)
		require.LessOrEqual(t, (estimate - exact).Abs(), max(exact/16, 64), "the quantile %v is %v, the estimate %v", q, exact, estimate)
		require.LessOrEqual(t, estimate, h.Max)
		require.Equal(t, durations[len(durations)-1], h.Max)
	})
}

func TestHistogram_limits(t *testing.T) {
	require.Zero(t, Histogram{}.Quantile(0.5))
	require.Zero(t, Histogram{}.Mean())
	h := snapshotOf([]time.Duration{time.Millisecond, 3 * time.Millisecond})
	require.Equal(t, 2*time.Millisecond, h.Mean())
	require.Equal(t, h.Quantile(0), h.Quantile(-1))
	require.Equal(t, h.Max, h.Quantile(2))
	require.Equal(t, h.Max, h.Quantile(math.NaN()))
	long := snapshotOf([]time.Duration{48 * time.Hour})
	require.Positive(t, long.Quantile(0.5), "beyond the scale")
}

// What is marshalled is enough to compute quantiles elsewhere.
func TestHistogram_json(t *testing.T) {
	h := snapshotOf([]time.Duration{time.Microsecond, time.Second})
	text, err := json.Marshal(h)
	require.NoError(t, err)
	var got Histogram
	require.NoError(t, json.Unmarshal(text, &got))
	require.Equal(t, h, got)
}
