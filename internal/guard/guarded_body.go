package guard

import (
	"io"
	"net/http"
	"time"
)

// maxCloseWait bounds how long Close of a body takes.
const maxCloseWait = 250 * time.Millisecond

// guardedBody is the body of a response. Its methods run in the caller's goroutines.
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

// next returns the next chunk. The goroutine uses its buffer again at the next call.
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

// Close implements io.Closer. It may be called while Read runs. It waits until the
// host's body is closed, until the request's context ends, or for maxCloseWait.
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
	if reading { // only Close ends a Read that blocks
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
