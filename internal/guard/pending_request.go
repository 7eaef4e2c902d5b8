package guard

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// firstBufferSize and bodyBufferSize are how many bytes of a body one Read gets: the
// first size until a Read fills it.
const (
	firstBufferSize = 4 << 10
	bodyBufferSize  = 32 << 10
)

// pendingRequest is one request that the host's RoundTripper has. Its goroutine (run)
// calls the RoundTripper and then reads the body. The goroutine of the caller talks
// to it over channels, as guardedBody.
type pendingRequest struct {
	rt   *RoundTripper
	ctx  context.Context
	body io.ReadCloser // of the host's response; set by the goroutine before it sends to responded

	responded     chan result   // buffered, for one result of RoundTrip
	readRequested chan struct{} // asks the goroutine for the next chunk
	chunks        chan chunk    // buffered, for one result of Read
	closed        chan struct{} // closed by Close
	finished      chan struct{} // closed when the goroutine returns

	mu        sync.Mutex // guards the next four fields
	abandoned bool       // counted in rt.abandoned
	returned  bool       // the goroutine has returned
	isClosed  bool       // Close was called
	reading   bool       // the goroutine is inside Read
	closing   sync.Once  // the body of the host is closed once

	// These belong to the caller of guardedBody.Read.
	unread []byte
	err    error
}

// result is what RoundTrip returned.
type result struct {
	resp *http.Response
	err  error
}

// chunk is what one Read of the body returned. data is part of the buffer of the goroutine.
type chunk struct {
	data []byte
	err  error
}

// abandon counts the request as abandoned until its goroutine returns. The goroutine
// closes a response that RoundTrip has not returned.
func (x *pendingRequest) abandon() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.returned && !x.abandoned {
		x.abandoned = true
		x.rt.abandoned.add(1)
	}
}

// run is the body of the request's goroutine.
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

// roundTrip calls the host's RoundTripper and sends the result. It reports whether the
// response has a body that the caller reads.
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
		own := *resp // the host may return the same response each time
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

// serveBody reads a chunk for each request, until the body is closed.
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
			buf = make([]byte, bodyBufferSize) // the caller may still read c
		}
	}
}

// readOnce reads one chunk of the body. If Read calls runtime.Goexit, it sends the error
// while the goroutine ends.
func (x *pendingRequest) readOnce(buf []byte) (c chunk) {
	c.err = goexitError("response body")
	returned := false
	defer func() {
		if !returned { // Read called runtime.Goexit
			x.chunks <- c
		}
	}()
	n, err := Value("response body", func() (int, error) { return x.body.Read(buf) })
	returned = true
	if n < 0 || n > len(buf) {
		return chunk{err: fmt.Errorf("the host's response body read %d of %d bytes", n, len(buf))}
	}
	return chunk{data: buf[:n], err: err}
}

// closeBody closes the body of the host, once. It may block as long as the host does.
func (x *pendingRequest) closeBody() {
	x.closing.Do(func() { _ = Call("response body", x.body.Close) })
}
