package endpoint

import (
	"context"
	"io"
	"net"
	"net/http/httptrace"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// It is certain that nothing was written only after the connection is closed. Bytes that
// were written before the request got the connection do not count.
func TestConnTrace_neverWritten(t *testing.T) {
	dial := newConnTracker().track(func(context.Context, string, string) (net.Conn, error) {
		mine, peer := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, peer) }()
		return mine, nil
	})
	conn, err := dial(t.Context(), "", "")
	require.NoError(t, err)
	_, err = conn.Write([]byte("of another request"))
	require.NoError(t, err)
	var trace, late ConnTrace
	require.False(t, trace.neverWritten(), "no connection yet")
	trace.gotConn(httptrace.GotConnInfo{Conn: conn})
	require.False(t, trace.neverWritten(), "the connection is open and may still be written to")
	late.gotConn(httptrace.GotConnInfo{Conn: conn})
	_, err = conn.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.False(t, trace.neverWritten())
	require.False(t, late.neverWritten())
	trace.gotConn(httptrace.GotConnInfo{Conn: conn, Reused: true})
	require.True(t, trace.neverWritten())
	trace.reset()
	require.False(t, trace.neverWritten(), "a new attempt has no connection yet")
	require.False(t, trace.connected.Load())
	require.False(t, trace.reused.Load())
}

// The context of a request reports to the trace, has the values of its parent, and does not
// end with it.
func TestConnTrace_Context(t *testing.T) {
	type key struct{}
	parent, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
	var trace ConnTrace
	ctx := trace.Context(parent)
	require.Same(t, &trace.hooks, httptrace.ContextClientTrace(ctx))
	require.Equal(t, "value", ctx.Value(key{}))
	cancel()
	require.NoError(t, ctx.Err())
	require.Nil(t, ctx.Done())
	derived, end := context.WithCancelCause(ctx)
	require.Same(t, &trace.hooks, httptrace.ContextClientTrace(derived))
	end(io.EOF)
	require.Equal(t, io.EOF, context.Cause(derived))
}

// A trace of the application in the parent gets its calls, too.
func TestConnTrace_Context_besideOtherTrace(t *testing.T) {
	called := false
	parent, cancel := context.WithCancel(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { called = true }}))
	var trace ConnTrace
	ctx := trace.Context(parent)
	httptrace.ContextClientTrace(ctx).GotConn(httptrace.GotConnInfo{})
	require.True(t, called)
	require.True(t, trace.connected.Load())
	cancel()
	require.NoError(t, ctx.Err())
}

// The tracker holds exactly the open connections. closeAll closes them, and each connection
// that is dialled later.
func TestConnTracker(t *testing.T) {
	tracker := newConnTracker()
	var peers []net.Conn
	dial := tracker.track(func(context.Context, string, string) (net.Conn, error) {
		mine, peer := net.Pipe()
		peers = append(peers, peer)
		return mine, peer.SetReadDeadline(time.Now().Add(transporttest.Patience))
	})
	closed := func(peer net.Conn) {
		_, err := peer.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
	}
	first, err := dial(t.Context(), "", "")
	require.NoError(t, err)
	require.NoError(t, first.Close())
	require.Empty(t, tracker.open, "a closed connection is removed")
	_, err = dial(t.Context(), "", "")
	require.NoError(t, err)
	require.Len(t, tracker.open, 1)
	tracker.closeAll()
	closed(peers[1])
	_, err = dial(t.Context(), "", "")
	require.ErrorIs(t, err, net.ErrClosed)
	closed(peers[2])
}
