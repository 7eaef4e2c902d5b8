package transport

import (
	"context"
	"net"
	"sync"
)

// connSet knows the open connections of one session, so that its end can be
// the end of them too: net/http gives up a connection in its own time.
type connSet struct {
	mu     sync.Mutex
	open   map[*trackedConn]struct{}
	closed bool
}

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

func newConnSet() *connSet { return &connSet{open: make(map[*trackedConn]struct{})} }

// tracked makes a dial function whose connections are in the set until they
// are closed.
func (s *connSet) tracked(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
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

// closeAll closes what is open and whatever is still being dialled.
func (s *connSet) closeAll() {
	s.mu.Lock()
	s.closed = true
	left := s.open
	s.open = nil
	s.mu.Unlock()
	for c := range left {
		_ = c.Conn.Close()
	}
}

type trackedConn struct {
	net.Conn
	set *connSet
}

func (c *trackedConn) Close() error {
	c.set.mu.Lock()
	delete(c.set.open, c)
	c.set.mu.Unlock()
	return c.Conn.Close()
}
