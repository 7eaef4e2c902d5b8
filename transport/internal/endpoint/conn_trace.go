package endpoint

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/mcpvisor/mcpvisor/internal/guard"
)

// ConnTrace records which connection net/http gave to a request, and so shows whether
// the server may have seen that request. The zero value is ready; do not copy it.
// Goroutines of net/http write the atomic fields, and the sender reads them.
type ConnTrace struct {
	hooks httptrace.ClientTrace
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

// Attach returns a context whose requests report their connections to t.
func (t *ConnTrace) Attach(ctx context.Context) context.Context {
	t.hooks.GotConn = t.gotConn
	return httptrace.WithClientTrace(guard.Trace(ctx), &t.hooks)
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
