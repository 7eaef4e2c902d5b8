// Package backoff computes the growing waits between tries, and waits.
//
// The waits between the starts of a server are a [supervisor.Policy], which users choose,
// and which adds jitter and limits. The fixed waits inside the runtime use this package
// directly: reopening a stream, renewing a token, reading a list again.
//
// [supervisor.Policy]: https://pkg.go.dev/github.com/mcpvisor/mcpvisor/supervisor#Policy
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff is a series of waits: First, 2·First, 4·First, … and never more than
// Max. It is a value without state; the caller keeps the number of tries or the
// previous wait. First and Max must be positive.
type Backoff struct {
	First, Max time.Duration
}

// Delay returns the wait before try n, counted from 1.
func (b Backoff) Delay(n int) time.Duration {
	d := min(b.First, b.Max)
	for i := 1; i < n && d < b.Max; i++ {
		d = b.Next(d)
	}
	return d
}

// Next returns the wait that follows previous: twice as long, at least First and
// at most Max. After 0 comes First.
func (b Backoff) Next(previous time.Duration) time.Duration {
	if previous > b.Max/2 {
		return b.Max
	}
	return min(max(2*previous, b.First), b.Max)
}

// WithJitter returns d and up to a quarter of it more, at random. Clients that lost the
// same server together then do not come back together.
func WithJitter(d time.Duration) time.Duration { return d + rand.N(d/4+1) }

// Sleep waits for d. If ctx ends first, Sleep returns its cause at once. A context
// that has ended already is an error, even where d is 0 or negative.
func Sleep(ctx context.Context, d time.Duration) error { return SleepUntil(ctx, nil, d) }

// SleepUntil is Sleep, but returns early, and without an error, when stop is closed.
func SleepUntil(ctx context.Context, stop <-chan struct{}, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-stop:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
