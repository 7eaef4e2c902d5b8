package monitor

import (
	"math"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/latency"
)

// Histogram is a snapshot of a distribution of durations. Its buckets grow with the
// duration: each is at most 1/16 as wide as its own value, or 64 ns wide below 1 µs.
// The zero value is empty.
type Histogram struct {
	// Count is how many durations were recorded.
	Count int64 `json:"count"`
	// Sum is their sum, Max the longest one.
	Sum time.Duration `json:"sumNs"`
	Max time.Duration `json:"maxNs"`
	// Buckets are those that are not empty, the shortest durations first.
	Buckets []HistogramBucket `json:"buckets,omitempty"`
}

// HistogramBucket counts durations of about the same length.
type HistogramBucket struct {
	// UpTo is the longest duration of the bucket. The last bucket also counts everything longer,
	// from about an hour on.
	UpTo time.Duration `json:"upToNs"`
	// Count is how many durations the bucket has.
	Count int64 `json:"count"`
}

// Quantile estimates the duration that a share q of all durations does not exceed:
// Quantile(0.5) is the median, Quantile(0.95) the 95th percentile. The estimate differs
// from the exact value by at most 1/16 (6.3 %) of it, or by 64 ns if that is more. It is
// never longer than Max, which is Quantile(1). q is clamped to [0, 1]; an empty histogram returns 0.
func (h Histogram) Quantile(q float64) time.Duration {
	var total int64
	for _, b := range h.Buckets {
		total += b.Count
	}
	if total == 0 {
		return 0
	}
	if !(q < 1) { // NaN, too
		return h.Max
	}
	rank := max(int64(math.Ceil(max(q, 0)*float64(total))), 1)
	for _, b := range h.Buckets {
		if rank -= b.Count; rank <= 0 {
			low := latency.From(b.UpTo)
			return min(low+(b.UpTo-low)/2, h.Max)
		}
	}
	return h.Max
}

// Mean is the average duration; 0 for an empty histogram.
func (h Histogram) Mean() time.Duration {
	if h.Count == 0 {
		return 0
	}
	return h.Sum / time.Duration(h.Count)
}
