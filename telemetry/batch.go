package telemetry

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// batchSize is how many durations a batch holds at most.
const batchSize = 256

// batcher holds durations back and records many at a time. That costs about half as much:
// what the SDK reads for each stays in the cache of the processor. A collection flushes
// the batches first, so it misses nothing. Safe for concurrent use.
type batcher struct {
	histogram metric.Float64Histogram // does not change
	batches   []batch
	// near holds *batch. It gives a goroutine the batch that its processor has used last.
	near sync.Pool
	next atomic.Uint32 // index of the batch that a processor gets first
}

// batch holds durations in the order in which they came.
type batch struct {
	mu      sync.Mutex // guards what follows
	closed  bool       // durations are recorded at once
	n       int
	pending [batchSize]duration
	// lastKey and last are the series of the last duration. Requests often come in rows.
	lastKey seriesKey
	last    *series
	_       [64]byte // keeps the next batch out of the line of this one
}

// duration is the duration of one request.
type duration struct {
	series  *series
	seconds float64
}

func newBatcher(h metric.Float64Histogram) *batcher {
	b := &batcher{histogram: h, batches: make([]batch, runtime.GOMAXPROCS(0))}
	b.near.New = func() any { return &b.batches[int(b.next.Add(1)-1)%len(b.batches)] }
	return b
}

// add records a duration, now or later. find returns the series of the key. With a sampled
// span it is now, because the SDK may take the span as an exemplar.
func (b *batcher) add(ctx context.Context, key *seriesKey, seconds float64, find func(seriesKey) *series) {
	if trace.SpanContextFromContext(ctx).IsSampled() {
		b.histogram.Record(ctx, seconds, find(*key).options...)
		return
	}
	own := b.near.Get().(*batch)
	defer b.near.Put(own)
	if !own.mu.TryLock() { // another goroutine uses it, perhaps to flush it
		b.histogram.Record(ctx, seconds, find(*key).options...)
		return
	}
	defer own.mu.Unlock()
	if own.last == nil || own.lastKey != *key {
		own.lastKey, own.last = *key, find(*key)
	}
	if own.closed {
		b.histogram.Record(ctx, seconds, own.last.options...)
		return
	}
	own.pending[own.n] = duration{own.last, seconds}
	if own.n++; own.n == batchSize {
		b.record(own)
	}
}

// record records what a batch holds. The caller has its lock.
func (b *batcher) record(own *batch) {
	for _, d := range own.pending[:own.n] {
		b.histogram.Record(context.Background(), d.seconds, d.series.options...)
	}
	own.n = 0
}

// flush records what all batches hold. If it is the last flush, later durations are
// recorded at once.
func (b *batcher) flush(last bool) {
	for i := range b.batches {
		own := &b.batches[i]
		own.mu.Lock()
		b.record(own)
		own.closed = own.closed || last
		own.mu.Unlock()
	}
}
