package endpoint

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
)

// connTracker holds the open connections of one session, so that they can be closed at
// its end. Without it net/http might keep idle connections longer. Safe for concurrent
// use.
type connTracker struct {
	mu     sync.Mutex                // guards the other fields
	open   map[*trackedConn]struct{} // nil after closeAll
	closed bool                      // closeAll was called
}

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

func newConnTracker() *connTracker { return &connTracker{open: make(map[*trackedConn]struct{})} }

// track wraps a dial function. Its connections are in the tracker until they are closed.
// A *tls.Conn is returned unwrapped and untracked, because net/http must recognise its
// type to use HTTP/2.
func (t *connTracker) track(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if _, ok := conn.(*tls.Conn); ok {
			return conn, nil
		}
		c := &trackedConn{Conn: conn, tracker: t}
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.closed { // the session ended while this connection was made
			_ = conn.Close()
			return nil, net.ErrClosed
		}
		t.open[c] = struct{}{}
		if made, ok := ctx.Value(dialedKey{}).(**trackedConn); ok {
			*made = c
		}
		return c, nil
	}
}

// OpenConns returns how many connections of the session are open.
func (e *Endpoint) OpenConns() int {
	e.conns.mu.Lock()
	defer e.conns.mu.Unlock()
	return len(e.conns.open)
}

// closeAll closes the open connections. A connection that is still being made is closed
// when it is complete.
func (t *connTracker) closeAll() {
	t.mu.Lock()
	t.closed = true
	left := t.open
	t.open = nil
	t.mu.Unlock()
	for c := range left {
		_ = c.Conn.Close()
	}
}

// trackedConn is one connection of a tracker. It counts the bytes written to it.
type trackedConn struct {
	net.Conn
	tracker *connTracker
	written atomic.Int64
	closed  atomic.Bool
}

// trackedConnOf returns the tracked connection below layers of TLS; nil if the innermost
// connection is not tracked.
func trackedConnOf(conn net.Conn) *trackedConn {
	for {
		layer, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = layer.NetConn()
	}
	c, _ := conn.(*trackedConn)
	return c
}

// Write implements net.Conn. Bytes count as written from the moment their write begins.
func (c *trackedConn) Write(p []byte) (int, error) {
	c.written.Add(int64(len(p)))
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n - len(p)))
	return n, err
}

// Close implements net.Conn.
func (c *trackedConn) Close() error {
	c.closed.Store(true)
	c.tracker.mu.Lock()
	delete(c.tracker.open, c)
	c.tracker.mu.Unlock()
	return c.Conn.Close()
}
