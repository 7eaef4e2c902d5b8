package latency

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Every duration lies in its bucket, and the buckets adjoin.
func TestBuckets(t *testing.T) {
	require.Zero(t, lowest(0))
	for i := range buckets - 1 {
		low, next := lowest(i), lowest(i+1)
		require.Equal(t, i, bucketOf(low))
		require.Equal(t, i, bucketOf(next-1))
		require.Equal(t, i+1, bucketOf(next))
		require.LessOrEqual(t, next-low, max(low/parts, 1<<unitBits), "the width of bucket %d", i)
	}
	require.Equal(t, time.Duration(1)<<topBits, lowest(buckets))
	for _, d := range []time.Duration{1 << topBits, 1<<63 - 1} {
		require.Equal(t, buckets-1, bucketOf(d), "longer durations share the last bucket")
	}
}

// What was recorded is found again, each duration in a bucket that contains it.
func TestRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		durations := rapid.SliceOf(rapid.Map(rapid.Int64Range(0, 1<<topBits-1), func(n int64) time.Duration { return time.Duration(n) })).Draw(t, "durations")
		var r Recorder
		var sum, longest time.Duration
		for _, d := range durations {
			r.Record(d)
			sum, longest = sum+d, max(longest, d)
		}
		require.Equal(t, sum, r.Sum())
		require.Equal(t, longest, r.Max())
		last := time.Duration(-1)
		r.Each(func(upTo time.Duration, count int64) {
			require.Greater(t, upTo, last)
			last = upTo
			var within int64
			for _, d := range durations {
				if From(upTo) <= d && d <= upTo {
					within++
				}
			}
			require.Equal(t, within, count)
		})
	})
}

func TestRecord_negative(t *testing.T) {
	var r Recorder
	r.Record(-time.Second)
	require.Zero(t, r.Sum())
	r.Each(func(upTo time.Duration, count int64) {
		require.EqualValues(t, 63, upTo)
		require.EqualValues(t, 1, count)
	})
}

func TestRecord_concurrent(t *testing.T) {
	var r Recorder
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 1000 {
				r.Record(time.Duration(i*1000+j) * time.Microsecond)
			}
		})
	}
	wg.Wait()
	var count int64
	r.Each(func(_ time.Duration, n int64) { count += n })
	require.EqualValues(t, 8000, count)
	require.Equal(t, 7999*time.Microsecond, r.Max())
	require.Equal(t, 7999*8000/2*time.Microsecond, r.Sum())
}

func TestRecord_allocates_nothing(t *testing.T) {
	var r Recorder
	require.Zero(t, testing.AllocsPerRun(100, func() { r.Record(time.Millisecond) }))
}

func BenchmarkRecord(b *testing.B) {
	var r Recorder
	b.ReportAllocs()
	for b.Loop() {
		r.Record(123456)
	}
}

func BenchmarkRecord_parallel(b *testing.B) {
	var r Recorder
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			r.Record(123456)
		}
	})
}
