package simulation

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// A network connects clients and servers in memory. All its waiting is durable for testing/synctest.
type network struct {
	mu        sync.Mutex // guards listeners
	listeners map[string]*listener
}

type listener struct {
	n    *network
	addr string

	mu    sync.Mutex // guards the fields below
	open  sync.Cond
	queue []net.Conn
	conns map[*conn]bool // both ends of each
	ended bool
}

var errRefused = errors.New("connection refused")

// listen serves an address, in place of an earlier listener.
func (n *network) listen(addr string) *listener {
	l := &listener{n: n, addr: addr, conns: map[*conn]bool{}}
	l.open.L = &l.mu
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners[addr] = l
	return l
}

func (n *network) dial(_ context.Context, _, addr string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[addr]
	n.mu.Unlock()
	if l == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errRefused}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errRefused}
	}
	there, back := newStream(), newStream()
	client, server := &conn{in: back, out: there}, &conn{in: there, out: back}
	l.queue = append(l.queue, server)
	l.conns[client], l.conns[server] = true, true
	l.open.Signal()
	return client, nil
}

func (l *listener) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 && !l.ended {
		l.open.Wait()
	}
	if l.ended {
		return nil, net.ErrClosed
	}
	c := l.queue[0]
	l.queue = l.queue[1:]
	return c, nil
}

// Close cuts all connections, as the end of a process does.
func (l *listener) Close() error {
	l.mu.Lock()
	l.ended = true
	l.open.Broadcast()
	l.mu.Unlock()
	l.cut()
	return nil
}

// cut breaks the connections of the moment.
func (l *listener) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		_ = c.Close()
	}
	clear(l.conns)
}

func (l *listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

// A stream is one direction of a connection.
type stream struct {
	mu       sync.Mutex // guards the fields below
	change   sync.Cond
	buffered []byte
	ended    bool
	deadline [2]time.Time // of reads and writes
}

const maxBuffered = 64 << 10

func newStream() *stream {
	s := &stream{}
	s.change.L = &s.mu
	return s
}

func (s *stream) setDeadline(of int, t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline[of] = t
	s.change.Broadcast()
	if !t.IsZero() {
		time.AfterFunc(time.Until(t), func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.change.Broadcast()
		})
	}
}

// wait waits until ready, the end, or the deadline; s.mu is locked.
func (s *stream) wait(of int, ready func() bool) error {
	for {
		switch d := s.deadline[of]; {
		case !d.IsZero() && !time.Now().Before(d):
			return os.ErrDeadlineExceeded
		case ready():
			return nil
		case s.ended:
			return io.EOF
		}
		s.change.Wait()
	}
}

func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.change.Broadcast()
}

type conn struct {
	in, out *stream
}

func (c *conn) Read(p []byte) (int, error) {
	s := c.in
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.wait(0, func() bool { return len(s.buffered) > 0 }); err != nil {
		return 0, err
	}
	n := copy(p, s.buffered)
	s.buffered = append(s.buffered[:0], s.buffered[n:]...)
	s.change.Broadcast()
	return n, nil
}

func (c *conn) Write(p []byte) (n int, err error) {
	s := c.out
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(p) > 0 {
		if err := s.wait(1, func() bool { return !s.ended && len(s.buffered) < maxBuffered }); err != nil {
			if errors.Is(err, io.EOF) {
				err = net.ErrClosed
			}
			return n, err
		}
		k := min(len(p), maxBuffered-len(s.buffered))
		s.buffered = append(s.buffered, p[:k]...)
		n, p = n+k, p[k:]
		s.change.Broadcast()
	}
	return n, nil
}

func (c *conn) Close() error {
	c.in.end()
	c.out.end()
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
func (c *conn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2} }
func (c *conn) SetDeadline(t time.Time) error {
	c.in.setDeadline(0, t)
	c.out.setDeadline(1, t)
	return nil
}
func (c *conn) SetReadDeadline(t time.Time) error  { c.in.setDeadline(0, t); return nil }
func (c *conn) SetWriteDeadline(t time.Time) error { c.out.setDeadline(1, t); return nil }
