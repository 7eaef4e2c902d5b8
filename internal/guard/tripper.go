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
	// abandonedWait is how long a request waits for that.
	abandonedWait = time.Second
	// closeWait bounds how long Close of a body is waited for.
	closeWait = 250 * time.Millisecond
	// firstBuffer and bodyBuffer are how much of a body is read at once.
	firstBuffer = 4 << 10
	bodyBuffer  = 32 << 10
)

// ErrHeld is the error of a request that a RoundTripper was not given, because it
// holds too many others.
var ErrHeld = fmt.Errorf("the host's RoundTripper holds %d requests whose contexts have ended; it has to heed the context of a request", maxAbandoned)

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

// room waits until there are fewer than maxAbandoned, for a short time.
func (a *Abandoned) room(ctx context.Context) error {
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
			late = time.NewTimer(abandonedWait)
			defer late.Stop()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ErrHeld
		case <-late.C:
			return ErrHeld
		}
	}
}

// Tripper asks a RoundTripper of the host's, each time in a goroutine of its own
// that also reads and closes the body of the response. RoundTrip and Read return
// when the context of the request ends, whatever the RoundTripper does. A request
// that it holds longer is abandoned: its goroutine is left behind, and what comes
// late is closed.
type Tripper struct {
	base      http.RoundTripper
	abandoned *Abandoned

	mu      sync.Mutex
	running int           // goroutines
	idle    chan struct{} // closed when running is 0; nil if nothing waits for it
}

// NewTripper makes a Tripper. abandoned may be shared.
func NewTripper(base http.RoundTripper, abandoned *Abandoned) *Tripper {
	return &Tripper{base: base, abandoned: abandoned}
}

// Abandoned is how many requests are abandoned now.
func (t *Tripper) Abandoned() int { return t.abandoned.Count() }

// CountWith has abandoned requests counted elsewhere. It must be called before the
// first request.
func (t *Tripper) CountWith(a *Abandoned) { t.abandoned = a }

// Settle waits until every goroutine of t has returned, no longer than limit. It
// returns how many have not.
func (t *Tripper) Settle(limit time.Duration) (left int) {
	t.mu.Lock()
	if t.running == 0 {
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
	return t.running
}

// start runs f in a goroutine that Settle waits for.
func (t *Tripper) start(f func()) {
	t.mu.Lock()
	t.running++
	t.mu.Unlock()
	go func() {
		defer func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			if t.running--; t.running == 0 && t.idle != nil {
				close(t.idle)
				t.idle = nil
			}
		}()
		f()
	}()
}

var errNoResponse = errors.New("the host's RoundTripper returned neither a response nor an error")

// RoundTrip implements http.RoundTripper.
func (t *Tripper) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if err := t.abandoned.room(ctx); err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	x := &trip{tripper: t, ctx: ctx, answered: make(chan answer, 1), wanted: make(chan struct{}),
		read: make(chan chunk, 1), closed: make(chan struct{}), finished: make(chan struct{})}
	t.start(func() { x.run(req) })
	select {
	case a := <-x.answered:
		return a.resp, a.err
	case <-ctx.Done():
	}
	x.abandon()
	select {
	case a := <-x.answered: // both at once
		return a.resp, a.err
	default:
		return nil, fmt.Errorf("the host's RoundTripper was not waited for: %w", ctx.Err())
	}
}

// trip is one request at a RoundTripper of the host's. It is the body of its
// response, too.
type trip struct {
	tripper *Tripper
	ctx     context.Context
	body    io.ReadCloser // the RoundTripper's; written before answered is sent to

	answered chan answer   // holds one
	wanted   chan struct{} // asks the goroutine to read on
	read     chan chunk    // holds one
	closed   chan struct{} // no more is wanted
	finished chan struct{} // the goroutine has returned

	mu        sync.Mutex
	abandoned bool // counted as such
	over      bool // the goroutine has returned
	isClosed  bool
	reading   bool // the goroutine is inside Read
	closing   sync.Once

	// Of the goroutine that reads.
	left []byte
	err  error
}

type answer struct {
	resp *http.Response
	err  error
}

type chunk struct {
	data []byte
	err  error
}

// abandon counts the request as abandoned until its goroutine returns. A response
// that has come, or comes later, is closed unless RoundTrip has returned it.
func (x *trip) abandon() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.over && !x.abandoned {
		x.abandoned = true
		x.tripper.abandoned.add(1)
	}
}

// run is the goroutine of the request.
func (x *trip) run(req *http.Request) {
	defer func() {
		x.mu.Lock()
		x.over = true
		if x.abandoned {
			x.tripper.abandoned.add(-1)
		}
		x.mu.Unlock()
		close(x.finished)
	}()
	if x.ask(req) {
		x.serveBody()
	}
}

// ask gets the response. It reports whether that has a body which RoundTrip
// returns.
func (x *trip) ask(req *http.Request) (hasBody bool) {
	a := answer{err: ended("RoundTripper")}
	defer func() {
		x.mu.Lock()
		late := x.abandoned
		if !late {
			x.answered <- a
		}
		x.mu.Unlock()
		if late && x.body != nil {
			hasBody = false
			x.closeBody()
		}
	}()
	resp, err := Value("RoundTripper", func() (*http.Response, error) { return x.tripper.base.RoundTrip(req) }) //nolint:bodyclose // serveBody closes it
	if resp != nil {
		x.body = resp.Body
	}
	switch {
	case err != nil:
		a = answer{err: err}
		if x.body != nil {
			x.closeBody()
		}
	case resp == nil:
		a = answer{err: errNoResponse}
	default:
		own := *resp // some return the same one each time
		a = answer{resp: &own}
		if x.body == nil || x.body == http.NoBody {
			own.Body = http.NoBody
			return false
		}
		own.Body = (*tripBody)(x)
		return true
	}
	return false
}

// serveBody reads as it is asked to, until the body is closed.
func (x *trip) serveBody() {
	defer x.closeBody()
	buf := make([]byte, firstBuffer)
	for {
		select {
		case <-x.closed:
			return
		case <-x.wanted:
		}
		x.mu.Lock()
		if x.isClosed {
			x.mu.Unlock()
			return
		}
		x.reading = true
		x.mu.Unlock()
		c := x.readOnce(buf)
		x.read <- c
		x.mu.Lock()
		x.reading = false
		x.mu.Unlock()
		if len(buf) == firstBuffer && len(c.data) == firstBuffer {
			buf = make([]byte, bodyBuffer) // c may still be read
		}
	}
}

func (x *trip) readOnce(buf []byte) (c chunk) {
	c.err = ended("response body")
	whole := false
	defer func() {
		if !whole { // the goroutine ends
			x.read <- c
		}
	}()
	n, err := Value("response body", func() (int, error) { return x.body.Read(buf) })
	whole = true
	if n < 0 || n > len(buf) {
		return chunk{err: fmt.Errorf("the host's response body read %d of %d bytes", n, len(buf))}
	}
	return chunk{data: buf[:n], err: err}
}

func (x *trip) closeBody() {
	x.closing.Do(func() { _ = Call("response body", x.body.Close) })
}

// tripBody is the body of a response as the library reads it.
type tripBody trip

// Read implements io.Reader. It returns when the request's context ends.
func (b *tripBody) Read(p []byte) (int, error) {
	for len(b.left) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		if len(p) == 0 {
			return 0, nil
		}
		b.left, b.err = b.next()
	}
	n := copy(p, b.left)
	b.left = b.left[n:]
	return n, nil
}

// next gets the next piece. The buffer is the goroutine's again with the call
// after it.
func (b *tripBody) next() ([]byte, error) {
	select {
	case b.wanted <- struct{}{}:
	case <-b.closed:
		return nil, http.ErrBodyReadAfterClose
	case <-b.finished:
		return nil, io.ErrUnexpectedEOF
	case <-b.ctx.Done():
		(*trip)(b).abandon()
		return nil, b.ctx.Err()
	}
	select {
	case c := <-b.read:
		return c.data, c.err
	case <-b.closed:
		return nil, http.ErrBodyReadAfterClose
	case <-b.ctx.Done():
		(*trip)(b).abandon()
		return nil, b.ctx.Err()
	}
}

// Close implements io.Closer. It may be called while Read runs, and waits for the
// RoundTripper's Close as long as the request's context allows, at most closeWait.
func (b *tripBody) Close() error {
	x := (*trip)(b)
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
		x.tripper.start(x.closeBody)
	}
	timer := time.NewTimer(closeWait)
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
