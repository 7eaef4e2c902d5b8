package fleet

import (
	"context"
	"sync"
	"sync/atomic"
)

// turnstile counts the calls in flight of a server or a session, until it is leaving. Safe for
// concurrent use.
type turnstile struct {
	// leaving: no further call is begun.
	leaving atomic.Bool
	calls   atomic.Int64 // in flight
	empty   sync.Once
	idle    chan struct{} // closed when leaving is set and no call is in flight
}

// begin admits a call. Each one that is admitted ends with done.
func (t *turnstile) begin() bool {
	t.calls.Add(1)
	if t.leaving.Load() {
		t.done()
		return false
	}
	return true
}

func (t *turnstile) done() {
	if t.calls.Add(-1) == 0 && t.leaving.Load() {
		t.empty.Do(func() { close(t.idle) })
	}
}

// drain admits no further call, and returns when none is in flight or ctx ends.
func (t *turnstile) drain(ctx context.Context) {
	t.leaving.Store(true)
	if t.calls.Load() == 0 {
		return
	}
	select {
	case <-t.idle:
	case <-ctx.Done():
	}
}
