package endpoint

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/guard"
)

// ConnTrace records which connection net/http gave to a request, and so shows whether
// the server may have seen that request. The zero value is ready; do not copy it.
// Goroutines of net/http write the atomic fields, and the sender reads them.
type ConnTrace struct {
	hooks httptrace.ClientTrace
	// values is the parent of the context of the request. Context sets it.
	values traceValues
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
	if traceKey == nil || httptrace.ContextClientTrace(parent) != nil {
		t.hooks.GotConn = t.gotConn
		return context.WithoutCancel(httptrace.WithClientTrace(guard.Trace(parent), &t.hooks))
	}
	t.values = traceValues{parent: parent, trace: &t.hooks}
	return &t.values
}

// isSole reports whether the trace in ctx is t, and no hooks of the application are in it.
func (t *ConnTrace) isSole(ctx context.Context) bool {
	return t != nil && httptrace.ContextClientTrace(ctx) == &t.hooks && t.values.parent != nil
}

// install sets the hook, for a request that net/http finds a connection for. The sender
// calls it before each attempt.
func (t *ConnTrace) install() {
	if t.hooks.GotConn == nil {
		t.hooks.GotConn = t.gotConn
	}
}

// gotConn is the hook that net/http calls when it has a connection for the request.
func (t *ConnTrace) gotConn(info httptrace.GotConnInfo) {
	t.setConn(trackedConnOf(info.Conn), info.Reused || info.WasIdle)
}

// setConn records that the request got a connection, which may be nil if it is not tracked.
func (t *ConnTrace) setConn(conn *trackedConn, reused bool) {
	if conn != nil {
		t.writtenBefore.Store(conn.written.Load())
	}
	t.conn.Store(conn)
	t.reused.Store(reused)
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

// traceValues is a context that never ends. It has the values of parent, and a trace. It is
// a part of the ConnTrace, because context.WithoutCancel and httptrace.WithClientTrace
// allocate for every request. It is not changed once a request has it.
type traceValues struct {
	parent context.Context
	trace  *httptrace.ClientTrace
}

// Deadline implements context.Context.
func (*traceValues) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Done implements context.Context.
func (*traceValues) Done() <-chan struct{} { return nil }

// Err implements context.Context.
func (*traceValues) Err() error { return nil }

// Value implements context.Context.
func (v *traceValues) Value(key any) any {
	if key == traceKey {
		return v.trace
	}
	return v.parent.Value(key)
}

// traceKey is the key of a ClientTrace in a context; nil if it is not known. Package
// httptrace does not export it.
var traceKey = findTraceKey()

// findTraceKey asks a context for its trace, and so learns the key. It returns nil if package
// httptrace does not look for the trace under one key, as it does today: without a trace, a
// request that was sent would count as not sent.
func findTraceKey() any {
	var probe keyProbe
	httptrace.ContextClientTrace(&probe)
	probe.trace = new(httptrace.ClientTrace)
	if probe.key == nil || httptrace.ContextClientTrace(&probe) != probe.trace {
		return nil
	}
	return probe.key
}

// keyProbe is a context that records the first key it is asked for. It returns trace for
// that key, once trace is set.
type keyProbe struct {
	traceValues
	key   any
	trace *httptrace.ClientTrace
}

// Value implements context.Context.
func (p *keyProbe) Value(key any) any {
	if p.key == nil {
		p.key = key
	}
	if p.trace == nil || key != p.key {
		return nil
	}
	return p.trace
}
