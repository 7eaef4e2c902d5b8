package guard

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// RoundTripper guards a RoundTripper of the host. It passes each request on in a new
// goroutine, which also reads and closes the body of the response. RoundTrip and
// Read return when the context of the request ends, whatever the host's
// RoundTripper does. A request that it holds longer is abandoned: its goroutine
// stays, and closes a late response.
type RoundTripper struct {
	base      http.RoundTripper
	abandoned *Abandoned

	mu         sync.Mutex
	goroutines int           // running
	idle       chan struct{} // closed when goroutines is 0; nil if Settle does not wait
}

// NewRoundTripper guards base. Several RoundTrippers may share one counter of
// abandoned requests.
func NewRoundTripper(base http.RoundTripper, abandoned *Abandoned) *RoundTripper {
	return &RoundTripper{base: base, abandoned: abandoned}
}

// Abandoned returns how many requests are abandoned now.
func (t *RoundTripper) Abandoned() int { return t.abandoned.Count() }

// UseCounter sets the counter of abandoned requests. It must be called before the
// first request.
func (t *RoundTripper) UseCounter(a *Abandoned) { t.abandoned = a }

// Settle waits until every goroutine of t has returned, at most for limit. It
// returns how many have not.
func (t *RoundTripper) Settle(limit time.Duration) (left int) {
	t.mu.Lock()
	if t.goroutines == 0 {
		t.mu.Unlock()
		return 0
	}
	if t.idle == nil {
		t.idle = make(chan struct{})
	}
	idle := t.idle
	t.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-idle:
		return 0
	case <-timer.C:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.goroutines
}

// goTracked runs f in a goroutine that Settle waits for.
func (t *RoundTripper) goTracked(f func()) {
	t.mu.Lock()
	t.goroutines++
	t.mu.Unlock()
	go func() {
		defer func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			if t.goroutines--; t.goroutines == 0 && t.idle != nil {
				close(t.idle)
				t.idle = nil
			}
		}()
		f()
	}()
}

var errNoResponse = errors.New("the host's RoundTripper returned neither a response nor an error")

// RoundTrip implements http.RoundTripper.
func (t *RoundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if err := t.abandoned.awaitCapacity(ctx); err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	x := &pendingRequest{rt: t, ctx: ctx, responded: make(chan result, 1), readRequested: make(chan struct{}),
		chunks: make(chan chunk, 1), closed: make(chan struct{}), finished: make(chan struct{})}
	t.goTracked(func() { x.run(req) })
	select {
	case a := <-x.responded:
		return a.resp, a.err
	case <-ctx.Done():
	}
	x.abandon()
	select {
	case a := <-x.responded: // the response came in the same moment
		return a.resp, a.err
	default:
		return nil, fmt.Errorf("the host's RoundTripper did not return in time: %w", ctx.Err())
	}
}
