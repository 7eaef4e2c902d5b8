package endpoint

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
)

// connTracker knows the open connections of one session, so that its end can be
// the end of them too: net/http gives up a connection in its own time.
type connTracker struct {
	mu     sync.Mutex
	open   map[*trackedConn]struct{}
	closed bool
}

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

func newConnTracker() *connTracker { return &connTracker{open: make(map[*trackedConn]struct{})} }

// track makes a dial function whose connections are in the set until they
// are closed. A *tls.Conn is not: net/http has to recognise it, to find out
// about HTTP/2.
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
		if s.closed { // dialled for a request that was given up meanwhile
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

// closeAll closes what is open and whatever is still being dialled.
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

// trackedConn is one connection of a set. It counts what is written to it.
type trackedConn struct {
	net.Conn
	set     *connTracker
	written atomic.Int64
	closed  atomic.Bool
}

// trackedUnder finds the connection of a set under layers of TLS; nil if there is
// none.
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

// Write implements net.Conn. What is being written counts as written.
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
