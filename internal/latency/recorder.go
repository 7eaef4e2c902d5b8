// Package latency records durations in a histogram of fixed size. Recording takes no
// lock and allocates nothing.
//
// The scale is log-linear. Durations below 1,024 ns have buckets of 64 ns. Each power of
// two above is divided into 16 buckets of the same width, so a bucket is at most 1/16 as
// wide as the durations in it.
package latency

import (
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	// parts is how many buckets a power of two has; the first ones have as many.
	parts    = 1 << partBits
	partBits = 4
	// unitBits: the first buckets are 1<<unitBits ns wide.
	unitBits = 6
	// topBits: durations of 1<<topBits ns and more (73 min) share the last bucket.
	topBits = 42
	// buckets is the number of all buckets.
	buckets = parts * (topBits - unitBits - partBits + 1)
)

// Recorder counts durations by bucket. The zero value is empty. Safe for concurrent use.
type Recorder struct {
	counts [buckets]atomic.Int64
	sum    atomic.Int64 // ns
	max    atomic.Int64 // ns
}

// Record adds a duration. A negative one counts as 0.
func (r *Recorder) Record(d time.Duration) {
	d = max(d, 0)
	r.counts[bucketOf(d)].Add(1)
	r.sum.Add(int64(d))
	for {
		longest := r.max.Load()
		if int64(d) <= longest || r.max.CompareAndSwap(longest, int64(d)) {
			return
		}
	}
}

// Sum returns the sum of all durations.
func (r *Recorder) Sum() time.Duration { return time.Duration(r.sum.Load()) }

// Max returns the longest duration.
func (r *Recorder) Max() time.Duration { return time.Duration(r.max.Load()) }

// Each calls f for each bucket that is not empty, in ascending order. upTo is the longest
// duration of the bucket. While durations are recorded, the counts may be of slightly
// different moments.
func (r *Recorder) Each(f func(upTo time.Duration, count int64)) {
	for i := range r.counts {
		if n := r.counts[i].Load(); n > 0 {
			f(lowest(i+1)-1, n)
		}
	}
}

// From returns the shortest duration of the bucket whose longest duration is upTo.
func From(upTo time.Duration) time.Duration { return lowest(bucketOf(max(upTo, 0))) }

// bucketOf returns the index of the bucket of a duration.
func bucketOf(d time.Duration) int {
	units := uint64(d) >> unitBits
	if units < parts {
		return int(units)
	}
	power := bits.Len64(units) - 1 // at least partBits
	if power >= topBits-unitBits {
		return buckets - 1
	}
	return parts*(power-partBits+1) + int(units>>(power-partBits)) - parts
}

// lowest returns the shortest duration of bucket i.
func lowest(i int) time.Duration {
	if i < parts {
		return time.Duration(i) << unitBits
	}
	power := i/parts - 1
	return time.Duration(parts+i%parts) << (power + unitBits)
}
