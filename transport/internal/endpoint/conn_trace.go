package endpoint

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/mcpvisor/mcpvisor/internal/guard"
)

// ConnTrace records which connection net/http gave to a request. It answers whether
// the server may have seen that request. The zero value is ready; do not copy it.
// Goroutines of net/http write the fields, the sender reads them.
type ConnTrace struct {
	hooks httptrace.ClientTrace
	// connected: the request got a connection. From then on the server may have seen
	// it.
	connected atomic.Bool
	// reused: the connection had carried other requests before.
	reused atomic.Bool
	// conn is the connection, if the endpoint tracks it, and writtenBefore the number
	// of bytes written to it before the request got it.
	conn          atomic.Pointer[trackedConn]
	writtenBefore atomic.Int64
}

// Attach returns a context whose requests report their connections to t.
func (t *ConnTrace) Attach(ctx context.Context) context.Context {
	t.hooks.GotConn = t.gotConn
	return httptrace.WithClientTrace(guard.Trace(ctx), &t.hooks)
}

// gotConn is the hook that net/http calls when it has a connection for the request.
func (t *ConnTrace) gotConn(info httptrace.GotConnInfo) {
	conn := trackedUnder(info.Conn)
	if conn != nil {
		t.writtenBefore.Store(conn.written.Load())
	}
	t.conn.Store(conn)
	t.reused.Store(info.Reused || info.WasIdle)
	t.connected.Store(true)
}

// reset forgets the connection of an earlier attempt.
func (t *ConnTrace) reset() {
	t.connected.Store(false)
	t.reused.Store(false)
	t.conn.Store(nil)
}

// neverWritten reports whether it is certain that no byte of the request was
// written, and that none will be: the connection is closed, and the count of written
// bytes has not changed since the request got it.
func (t *ConnTrace) neverWritten() bool {
	conn := t.conn.Load()
	return conn != nil && conn.closed.Load() && conn.written.Load() == t.writtenBefore.Load()
}
