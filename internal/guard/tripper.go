package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// maxAbandoned is how many requests a RoundTripper may hold after their contexts
	// have ended. Then it is asked no more until some of them return.
	maxAbandoned = 256
	// maxCapacityWait is how long a request waits for that.
	maxCapacityWait = time.Second
	// maxCloseWait bounds how long Close of a body is waited for.
	maxCloseWait = 250 * time.Millisecond
	// firstBufferSize and bodyBuffer are how much of a body is read at once.
	firstBufferSize = 4 << 10
	bodyBufferSize  = 32 << 10
)

// ErrTooManyAbandoned is the error of a request that a RoundTripper was not given, because it
// holds too many others.
var ErrTooManyAbandoned = fmt.Errorf("the host's RoundTripper holds %d requests whose contexts have ended; it has to heed the context of a request", maxAbandoned)

// Abandoned counts the requests that RoundTrippers still hold although their
// contexts have ended. Safe for concurrent use.
type Abandoned struct {
	mu      sync.Mutex
	n       int
	changed chan struct{} // closed when n goes down; nil if nothing waits for it
}

// Count is how many there are now.
func (a *Abandoned) Count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.n
}

func (a *Abandoned) add(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n += n
	if n < 0 && a.changed != nil {
		close(a.changed)
		a.changed = nil
	}
}

// awaitCapacity waits until there are fewer than maxAbandoned, for a short time.
func (a *Abandoned) awaitCapacity(ctx context.Context) error {
	var late *time.Timer
	for {
		a.mu.Lock()
		if a.n < maxAbandoned {
			a.mu.Unlock()
			return nil
		}
		if a.changed == nil {
			a.changed = make(chan struct{})
		}
		changed := a.changed
		a.mu.Unlock()
		if late == nil {
			late = time.NewTimer(maxCapacityWait)
			defer late.Stop()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ErrTooManyAbandoned
		case <-late.C:
			return ErrTooManyAbandoned
		}
	}
}

// RoundTripper asks a RoundTripper of the host's, each time in a goroutine of its own
// that also reads and closes the body of the response. RoundTrip and Read return
// when the context of the request ends, whatever the RoundTripper does. A request
// that it holds longer is abandoned: its goroutine is left behind, and what comes
// late is closed.
type RoundTripper struct {
	base      http.RoundTripper
	abandoned *Abandoned

	mu         sync.Mutex
	goroutines int           // goroutines
	idle       chan struct{} // closed when running is 0; nil if nothing waits for it
}

// NewRoundTripper makes a Tripper. abandoned may be shared.
func NewRoundTripper(base http.RoundTripper, abandoned *Abandoned) *RoundTripper {
	return &RoundTripper{base: base, abandoned: abandoned}
}

// Abandoned is how many requests are abandoned now.
func (t *RoundTripper) Abandoned() int { return t.abandoned.Count() }

// UseCounter has abandoned requests counted elsewhere. It must be called before the
// first request.
func (t *RoundTripper) UseCounter(a *Abandoned) { t.abandoned = a }

// Settle waits until every goroutine of t has returned, no longer than limit. It
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
	case a := <-x.responded: // both at once
		return a.resp, a.err
	default:
		return nil, fmt.Errorf("the host's RoundTripper was not waited for: %w", ctx.Err())
	}
}

// pendingRequest is one request at a RoundTripper of the host's. It is the body of its
// response, too.
type pendingRequest struct {
	rt   *RoundTripper
	ctx  context.Context
	body io.ReadCloser // the RoundTripper's; written before answered is sent to

	responded     chan result   // holds one
	readRequested chan struct{} // asks the goroutine to read on
	chunks        chan chunk    // holds one
	closed        chan struct{} // no more is wanted
	finished      chan struct{} // the goroutine has returned

	mu        sync.Mutex
	abandoned bool // counted as such
	returned  bool // the goroutine has returned
	isClosed  bool
	reading   bool // the goroutine is inside Read
	closing   sync.Once

	// Of the goroutine that reads.
	unread []byte
	err    error
}

type result struct {
	resp *http.Response
	err  error
}

type chunk struct {
	data []byte
	err  error
}

// abandon counts the request as abandoned until its goroutine returns. A response
// that has come, or comes later, is closed unless RoundTrip has returned it.
func (x *pendingRequest) abandon() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.returned && !x.abandoned {
		x.abandoned = true
		x.rt.abandoned.add(1)
	}
}

// run is the goroutine of the request.
func (x *pendingRequest) run(req *http.Request) {
	defer func() {
		x.mu.Lock()
		x.returned = true
		if x.abandoned {
			x.rt.abandoned.add(-1)
		}
		x.mu.Unlock()
		close(x.finished)
	}()
	if x.roundTrip(req) {
		x.serveBody()
	}
}

// roundTrip gets the response. It reports whether that has a body which RoundTrip
// returns.
func (x *pendingRequest) roundTrip(req *http.Request) (hasBody bool) {
	a := result{err: goexitError("RoundTripper")}
	defer func() {
		x.mu.Lock()
		late := x.abandoned
		if !late {
			x.responded <- a
		}
		x.mu.Unlock()
		if late && x.body != nil {
			hasBody = false
			x.closeBody()
		}
	}()
	resp, err := Value("RoundTripper", func() (*http.Response, error) { return x.rt.base.RoundTrip(req) }) //nolint:bodyclose // serveBody closes it
	if resp != nil {
		x.body = resp.Body
	}
	switch {
	case err != nil:
		a = result{err: err}
		if x.body != nil {
			x.closeBody()
		}
	case resp == nil:
		a = result{err: errNoResponse}
	default:
		own := *resp // some return the same one each time
		a = result{resp: &own}
		if x.body == nil || x.body == http.NoBody {
			own.Body = http.NoBody
			return false
		}
		own.Body = (*guardedBody)(x)
		return true
	}
	return false
}

// serveBody reads as it is asked to, until the body is closed.
func (x *pendingRequest) serveBody() {
	defer x.closeBody()
	buf := make([]byte, firstBufferSize)
	for {
		select {
		case <-x.closed:
			return
		case <-x.readRequested:
		}
		x.mu.Lock()
		if x.isClosed {
			x.mu.Unlock()
			return
		}
		x.reading = true
		x.mu.Unlock()
		c := x.readOnce(buf)
		x.chunks <- c
		x.mu.Lock()
		x.reading = false
		x.mu.Unlock()
		if len(buf) == firstBufferSize && len(c.data) == firstBufferSize {
			buf = make([]byte, bodyBufferSize) // c may still be read
		}
	}
}

func (x *pendingRequest) readOnce(buf []byte) (c chunk) {
	c.err = goexitError("response body")
	whole := false
	defer func() {
		if !whole { // the goroutine ends
			x.chunks <- c
		}
	}()
	n, err := Value("response body", func() (int, error) { return x.body.Read(buf) })
	whole = true
	if n < 0 || n > len(buf) {
		return chunk{err: fmt.Errorf("the host's response body read %d of %d bytes", n, len(buf))}
	}
	return chunk{data: buf[:n], err: err}
}

func (x *pendingRequest) closeBody() {
	x.closing.Do(func() { _ = Call("response body", x.body.Close) })
}

// guardedBody is the body of a response as the library reads it.
type guardedBody pendingRequest

// Read implements io.Reader. It returns when the request's context ends.
func (b *guardedBody) Read(p []byte) (int, error) {
	for len(b.unread) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		if len(p) == 0 {
			return 0, nil
		}
		b.unread, b.err = b.next()
	}
	n := copy(p, b.unread)
	b.unread = b.unread[n:]
	return n, nil
}

// next gets the next piece. The buffer is the goroutine's again with the call
// after it.
func (b *guardedBody) next() ([]byte, error) {
	select {
	case b.readRequested <- struct{}{}:
	case <-b.closed:
		return nil, http.ErrBodyReadAfterClose
	case <-b.finished:
		return nil, io.ErrUnexpectedEOF
	case <-b.ctx.Done():
		(*pendingRequest)(b).abandon()
		return nil, b.ctx.Err()
	}
	select {
	case c := <-b.chunks:
		return c.data, c.err
	case <-b.closed:
		return nil, http.ErrBodyReadAfterClose
	case <-b.ctx.Done():
		(*pendingRequest)(b).abandon()
		return nil, b.ctx.Err()
	}
}

// Close implements io.Closer. It may be called while Read runs, and waits for the
// RoundTripper's Close as long as the request's context allows, at most closeWait.
func (b *guardedBody) Close() error {
	x := (*pendingRequest)(b)
	x.mu.Lock()
	if x.isClosed {
		x.mu.Unlock()
		return nil
	}
	x.isClosed = true
	reading := x.reading
	x.mu.Unlock()
	close(x.closed)
	if reading { // Close is what ends a Read
		x.rt.goTracked(x.closeBody)
	}
	timer := time.NewTimer(maxCloseWait)
	defer timer.Stop()
	select {
	case <-x.finished:
		return nil
	case <-x.ctx.Done():
	case <-timer.C:
	}
	x.abandon()
	return nil
}
