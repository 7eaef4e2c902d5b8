package endpoint

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
)

// ConnTrace records which connection net/http gave to a request, and so shows whether
// the server may have seen that request. The zero value is ready; do not copy it.
// Goroutines of net/http write the atomic fields, and the sender reads them.
type ConnTrace struct {
	hooks httptrace.ClientTrace
	// attempt is that of the first attempt, and attempted says that it is used. The sender
	// owns attempted.
	attempt   attempt
	attempted bool
	// connected: the request got a connection. From that moment the server may have seen
	// the request.
	connected atomic.Bool
	// reused: the connection had carried other requests before.
	reused atomic.Bool
	// conn is the connection; nil if the endpoint does not track it. writtenBefore is how
	// many bytes had been written to it when the request got it.
	conn          atomic.Pointer[trackedConn]
	writtenBefore atomic.Int64
}

// Context returns a context whose requests report their connections to t. It has the values
// of parent, but does not end with parent. Call it once.
func (t *ConnTrace) Context(parent context.Context) context.Context {
	t.hooks.GotConn = t.gotConn
	return httptrace.WithClientTrace(context.WithoutCancel(parent), &t.hooks)
}

// gotConn is the hook that net/http calls when it has a connection for the request.
func (t *ConnTrace) gotConn(info httptrace.GotConnInfo) {
	conn := trackedConnOf(info.Conn)
	if conn != nil {
		t.writtenBefore.Store(conn.written.Load())
	}
	t.conn.Store(conn)
	t.reused.Store(info.Reused || info.WasIdle)
	t.connected.Store(true)
}

// reset removes what was recorded about an earlier attempt.
func (t *ConnTrace) reset() {
	t.connected.Store(false)
	t.reused.Store(false)
	t.conn.Store(nil)
}

// neverWritten reports whether it is certain that no byte of the request was or will be
// written. That is so if the connection is closed, and its count of written bytes has not
// changed since the request got the connection.
func (t *ConnTrace) neverWritten() bool {
	conn := t.conn.Load()
	return conn != nil && conn.closed.Load() && conn.written.Load() == t.writtenBefore.Load()
}

// connTracker holds the open connections of one session, so that they can be closed at
// its end. Without it net/http might keep idle connections longer. Safe for concurrent
// use.
type connTracker struct {
	mu   sync.Mutex                // guards open
	open map[*trackedConn]struct{} // nil after closeAll
}

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

func newConnTracker() *connTracker { return &connTracker{open: make(map[*trackedConn]struct{})} }

// track wraps a dial function. Its connections are in the tracker until they are closed.
// A *tls.Conn is returned unwrapped and untracked, because net/http must recognise its
// type to use HTTP/2.
func (t *connTracker) track(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil || conn == nil { // net/http reports it if both are nil
			return nil, err
		}
		if _, ok := conn.(*tls.Conn); ok {
			return conn, nil
		}
		c := &trackedConn{Conn: conn, tracker: t}
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.open == nil { // the session ended while this connection was made
			_ = conn.Close()
			return nil, net.ErrClosed
		}
		t.open[c] = struct{}{}
		return c, nil
	}
}

// closeAll closes the open connections. A connection that is still being made is closed
// when it is complete.
func (t *connTracker) closeAll() {
	t.mu.Lock()
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
