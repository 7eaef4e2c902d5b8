package mcpgo

import (
	"context"
	"encoding/json"
	"io"
	"testing"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// answering is a connection that ends right after its answer. Write returns when the end has
// been seen.
type answering struct {
	messages chan jsonrpc.Message
	seen     <-chan struct{}
}

func (c *answering) Connect(context.Context) (sdk.Connection, error) { return c, nil }

func (c *answering) Read(context.Context) (jsonrpc.Message, error) {
	if m, ok := <-c.messages; ok {
		return m, nil
	}
	return nil, io.EOF
}

func (c *answering) Write(_ context.Context, m jsonrpc.Message) error {
	c.messages <- &jsonrpc.Response{ID: m.(*jsonrpc.Request).ID, Result: json.RawMessage(`{}`)}
	close(c.messages)
	<-c.seen
	return nil
}

func (c *answering) Close() error      { return nil }
func (c *answering) SessionID() string { return "" }

// A request that was answered before the session ended has its answer.
func TestTransport_answered_before_the_end(t *testing.T) {
	for range 50 {
		c := &answering{messages: make(chan jsonrpc.Message, 1)}
		tr := New(c)
		c.seen = tr.ended
		require.NoError(t, tr.Start(t.Context()))
		_, err := tr.SendRequest(t.Context(), transport.JSONRPCRequest{ID: mcp.NewRequestId(int64(1)), Method: "tools/call"})
		require.NoError(t, err)
		require.NoError(t, tr.Close())
	}
}

// connecting is a transport whose Connect waits for the end of its context, or for a
// connection.
type connecting struct {
	began  chan struct{}
	result chan sdk.Connection
	deaf   bool
}

func (c connecting) Connect(ctx context.Context) (sdk.Connection, error) {
	close(c.began)
	if c.deaf {
		ctx = context.WithoutCancel(ctx)
	}
	select {
	case conn := <-c.result:
		return conn, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// closing says when it is closed.
type closing struct {
	answering
	closed chan struct{}
}

func (c *closing) Close() error { close(c.closed); return nil }

// Close does not wait for Connect: it ends its context, and closes a connection that is made
// nevertheless.
func TestTransport_Close_while_connecting(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		inner := connecting{make(chan struct{}), make(chan sdk.Connection), deaf}
		tr := New(inner)
		started := make(chan error, 1)
		go func() { started <- tr.Start(t.Context()) }()
		<-inner.began
		require.NoError(t, tr.Close())
		if deaf {
			conn := &closing{closed: make(chan struct{})}
			inner.result <- conn
			<-conn.closed
		}
		require.ErrorIs(t, <-started, transport.ErrTransportClosed)
		require.ErrorIs(t, tr.Start(t.Context()), transport.ErrTransportClosed)
	}
}
