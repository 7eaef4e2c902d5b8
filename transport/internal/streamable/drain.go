package streamable

import (
	"io"
	"slices"
	"sync"
	"time"
)

const (
	// drainTimeout and maxDrained bound the time and the bytes spent on the rest of a body
	// after its answer. If the body ends within these bounds, its connection can be reused.
	drainTimeout = time.Second
	maxDrained   = 64 << 10
	// maxDrains bounds how many bodies of one session are read after their answers at the
	// same time. Each occupies a connection, and some servers never end a body.
	maxDrains = 64
)

// drains holds the exchanges of one session whose answer has arrived, and whose response is
// read to its end in the background. The zero value is empty. Safe for concurrent use.
type drains struct {
	mu   sync.Mutex
	ring [maxDrains]*exchange // nil: free; guarded by mu
	next int                  // where the next one goes; guarded by mu
}

// add adds an exchange. If there is no room, it ends the one that was added first, because
// that one is the most likely to continue without an end.
func (d *drains) add(x *exchange) {
	d.mu.Lock()
	oldest := d.ring[d.next]
	d.ring[d.next] = x
	d.next = (d.next + 1) % maxDrains
	d.mu.Unlock()
	if oldest != nil {
		oldest.finishDetached()
	}
}

// remove removes an exchange, unless another one has taken its place.
func (d *drains) remove(x *exchange) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.ring[:], x); i >= 0 {
		d.ring[i] = nil
	}
}

// closeBody closes the body of an exchange. more says that the body may continue after the
// answer. Then the rest is read in the background, so that the connection can be reused.
func (s *session) closeBody(body io.ReadCloser, x *exchange, more bool) {
	if !more || !x.detach() {
		_ = body.Close()
		return
	}
	s.drainBody(body, x)
}

// drainBody reads the rest of a body in the background and closes it.
func (s *session) drainBody(body io.ReadCloser, x *exchange) {
	if !s.startTask() {
		_ = body.Close()
		x.finishDetached()
		return
	}
	s.drains.add(x)
	go func() {
		defer s.tasks.Done()
		defer x.finishDetached()
		defer s.drains.remove(x)
		defer body.Close()
		limit := time.AfterFunc(drainTimeout, x.finishDetached)
		defer limit.Stop()
		_, _ = io.CopyN(io.Discard, body, maxDrained)
	}()
}
