package endpoint

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
)

// connTracker holds the open connections of one session, so that they end with the
// session: net/http keeps idle connections for as long as it likes. Safe for
// concurrent use.
type connTracker struct {
	mu     sync.Mutex
	open   map[*trackedConn]struct{}
	closed bool
}

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

func newConnTracker() *connTracker { return &connTracker{open: make(map[*trackedConn]struct{})} }

// track wraps a dial function: its connections are in the tracker until they are
// closed. A *tls.Conn is returned unwrapped, because net/http has to recognise it to
// negotiate HTTP/2.
func (s *connTracker) track(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if _, ok := conn.(*tls.Conn); ok {
			return conn, nil
		}
		c := &trackedConn{Conn: conn, set: s}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closed { // the session ended while this connection was made
			_ = conn.Close()
			return nil, net.ErrClosed
		}
		s.open[c] = struct{}{}
		return c, nil
	}
}

// OpenConns is how many connections of the session are open.
func (e *Endpoint) OpenConns() int {
	e.conns.mu.Lock()
	defer e.conns.mu.Unlock()
	return len(e.conns.open)
}

// closeAll closes the open connections, and every connection that is still being
// made.
func (s *connTracker) closeAll() {
	s.mu.Lock()
	s.closed = true
	left := s.open
	s.open = nil
	s.mu.Unlock()
	for c := range left {
		_ = c.Conn.Close()
	}
}

// trackedConn is one connection of a tracker. It counts the bytes written to it.
type trackedConn struct {
	net.Conn
	set     *connTracker
	written atomic.Int64
	closed  atomic.Bool
}

// trackedUnder returns the tracked connection under layers of TLS; nil if there is
// none of ours.
func trackedUnder(conn net.Conn) *trackedConn {
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

// Write implements net.Conn. Bytes count as written as soon as their write begins.
func (c *trackedConn) Write(p []byte) (int, error) {
	c.written.Add(int64(len(p)))
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n - len(p)))
	return n, err
}

// Close implements net.Conn.
func (c *trackedConn) Close() error {
	c.closed.Store(true)
	c.set.mu.Lock()
	delete(c.set.open, c)
	c.set.mu.Unlock()
	return c.Conn.Close()
}
