package mcpgo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/adaptertest"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	goleak.VerifyTestMain(m)
}

const patience = 30 * time.Second

// inBothEras runs f with a client of mcp-go before and since 2026-07-28, behind which one
// server is supervised.
func inBothEras(t *testing.T, f func(t *testing.T, c *client.Client, supervised *facade.Client, dir string)) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			ctx, dir := t.Context(), t.TempDir()
			supervised, err := facade.New(facade.WithDefaultWaitReady())
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, supervised.Close(context.Background())) })
			require.NoError(t, supervised.Register(ctx, mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(mcptest.Script{StateDir: dir}),
				Policy: supervisor.Retry(supervisor.Unlimited, time.Millisecond)}))
			c := client.NewClient(New(gateway.Transport(supervised)), client.WithProtocolVersion(version))
			t.Cleanup(func() { _ = c.Close() })
			require.NoError(t, c.Start(ctx))
			require.NoError(t, c.Start(ctx), "a second Start does nothing")
			got, err := c.Initialize(ctx, mcp.InitializeRequest{})
			require.NoError(t, err)
			require.Equal(t, version, got.ProtocolVersion)
			f(t, c, supervised, dir)
		})
	}
}

func call(ctx context.Context, c *client.Client, tool string, args map[string]any) (*mcp.CallToolResult, error) {
	var r mcp.CallToolRequest
	r.Params.Name, r.Params.Arguments = "mcp__s__"+tool, args
	return c.CallTool(ctx, r)
}

// The client of mcp-go lists and calls on one session, while the server is killed.
func TestTransport_survives_crashes(t *testing.T) {
	inBothEras(t, func(t *testing.T, c *client.Client, supervised *facade.Client, dir string) {
		ctx := t.Context()
		tools, err := c.ListTools(ctx, mcp.ListToolsRequest{})
		require.NoError(t, err)
		require.Len(t, tools.Tools, len(supervised.Tools()))
		for round := range 5 {
			for n := range 20 {
				r, err := call(ctx, c, "count", map[string]any{"key": fmt.Sprint(round, "-", n)})
				require.NoError(t, err)
				require.False(t, r.IsError)
			}
			r, err := call(ctx, c, "signal", map[string]any{"name": "KILL"})
			require.NoError(t, err)
			require.True(t, r.IsError)
			require.Contains(t, r.Content[0].(mcp.TextContent).Text, "crashed during the call. Whether it had an effect is not known")
		}
		executions := mcptest.Executions(dir)
		require.Len(t, executions, 100)
		for key, n := range executions {
			require.Equal(t, 1, n, key)
		}
		_, err = call(ctx, c, "no_such_tool", nil)
		require.ErrorContains(t, err, `unknown tool "mcp__s__no_such_tool"`)
		prompts, err := c.ListPrompts(ctx, mcp.ListPromptsRequest{})
		require.NoError(t, err)
		require.NotEmpty(t, prompts.Prompts)
		resources, err := c.ListResources(ctx, mcp.ListResourcesRequest{})
		require.NoError(t, err)
		var read mcp.ReadResourceRequest
		read.Params.URI = resources.Resources[0].URI
		contents, err := c.ReadResource(ctx, read)
		require.NoError(t, err)
		require.NotEmpty(t, contents.Contents)
	})
}

// A call whose context ends is canceled at the server.
func TestTransport_cancel(t *testing.T) {
	inBothEras(t, func(t *testing.T, c *client.Client, supervised *facade.Client, _ string) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := call(ctx, c, "hang", nil)
			ended <- err
		}()
		require.Eventually(t, func() bool { return len(supervised.CallsInFlight()) == 1 }, patience, time.Millisecond)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.Eventually(t, func() bool { return len(supervised.CallsInFlight()) == 0 }, patience, time.Millisecond)
	})
}

// Notifications reach the handler, which may send requests.
func TestTransport_notifications(t *testing.T) {
	inBothEras(t, func(t *testing.T, c *client.Client, supervised *facade.Client, _ string) {
		ctx := t.Context()
		listed := make(chan int, 100)
		c.OnNotification(func(n mcp.JSONRPCNotification) {
			if n.Method == "notifications/tools/list_changed" {
				tools, err := c.ListTools(ctx, mcp.ListToolsRequest{})
				if err == nil {
					listed <- len(tools.Tools)
				}
			}
		})
		if c.ProtocolVersion() == "2026-07-28" {
			stop, err := c.ListenAsync(ctx, mcp.SubscriptionFilter{ToolsListChanged: true}, nil)
			require.NoError(t, err)
			defer stop()
		}
		want := len(supervised.Tools()) + 1
		add := time.NewTicker(10 * time.Millisecond) // since 2026-07-28 nothing says when the stream stands
		defer add.Stop()
		deadline := time.After(patience)
		for n := 0; ; n++ {
			select {
			case got := <-listed:
				if got >= want {
					return
				}
			case <-add.C:
				_, err := call(ctx, c, "add_tool", map[string]any{"name": fmt.Sprint("fresh", n)})
				require.NoError(t, err)
			case <-deadline:
				require.FailNow(t, "no notification came")
			}
		}
	})
}

// The end of the facade.Client ends the session. What is sent after that, or after Close,
// fails.
func TestTransport_end(t *testing.T) {
	inBothEras(t, func(t *testing.T, c *client.Client, supervised *facade.Client, _ string) {
		lost := make(chan error, 1)
		c.OnConnectionLost(func(err error) { lost <- err })
		require.NoError(t, supervised.Close(t.Context()))
		require.Error(t, <-lost)
		_, err := call(t.Context(), c, "echo", nil)
		require.Error(t, err)
		require.NoError(t, c.Close())
		require.NoError(t, c.Close())
		_, err = call(t.Context(), c, "echo", nil)
		require.ErrorIs(t, err, transport.ErrTransportClosed)
		require.ErrorIs(t, c.Start(t.Context()), transport.ErrTransportClosed)
	})
	never := New(nil)
	_, err := never.SendRequest(t.Context(), transport.JSONRPCRequest{ID: mcp.NewRequestId(int64(1))})
	require.ErrorIs(t, err, transport.ErrTransportClosed)
	require.ErrorIs(t, never.SendNotification(t.Context(), mcp.JSONRPCNotification{}), transport.ErrTransportClosed)
	require.Empty(t, never.GetSessionId())
	require.NoError(t, never.Close())
}

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

func TestTransport_has_no_hidden_characters(t *testing.T) {
	c := client.NewClient(New(gateway.Transport(adaptertest.HiddenText(t))))
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.Start(t.Context()))
	_, err := c.Initialize(t.Context(), mcp.InitializeRequest{})
	require.NoError(t, err)
	tools, err := c.ListTools(t.Context(), mcp.ListToolsRequest{})
	require.NoError(t, err)
	require.Len(t, tools.Tools, 1)
	adaptertest.RequireVisible(t, tools.Tools[0].Description, tools.Tools[0])
}
