package gateway

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/internal/listing"
	"github.com/mcpvisor/mcpvisor/gateway/internal/resource"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Each change of a catalog is announced to the session, which then lists the new state.
func TestListChanged(t *testing.T) {
	inBothEras(t, func(t *testing.T, version string) {
		ctx := t.Context()
		c := newClient(t)
		tools, prompts, resources := make(chan struct{}, 100), make(chan struct{}, 100), make(chan struct{}, 100)
		s := connect(t, Transport(c, WithOnDown(Withdraw)), version, &mcp.ClientOptions{
			ToolListChangedHandler:     func(context.Context, *mcp.ToolListChangedRequest) { tools <- struct{}{} },
			PromptListChangedHandler:   func(context.Context, *mcp.PromptListChangedRequest) { prompts <- struct{}{} },
			ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { resources <- struct{}{} },
		})
		awaitTools := func(what string, n int) {
			t.Helper()
			for {
				listed, err := s.ListTools(ctx, nil)
				require.NoError(t, err, what)
				if len(listed.Tools) == n {
					return
				}
				receive(t, tools)
			}
		}
		awaitTools("nothing is registered", 0)
		spec := fixture("a", mcptest.Script{})
		spec.Policy = supervisor.Retry(1, time.Hour)
		require.NoError(t, c.Register(ctx, spec))
		all := len(c.Tools())
		receive(t, tools)
		receive(t, prompts)
		receive(t, resources)
		awaitTools("the server is ready", all)

		_, err := c.CallTool(ctx, "a/add_tool", map[string]any{"name": "fresh"})
		require.NoError(t, err)
		receive(t, tools)
		awaitTools("a tool was added", all+1)

		_, err = c.CallTool(ctx, "a/crash", nil)
		require.ErrorIs(t, err, mcpvisor.ErrCrashed)
		receive(t, tools)
		receive(t, prompts)
		receive(t, resources)
		awaitTools("the server has crashed", 0)

		require.NoError(t, c.Restart(ctx, "a"))
		receive(t, tools)
		awaitTools("the server is ready again", all)
		require.NoError(t, c.Unregister(ctx, "a"))
		receive(t, tools)
		awaitTools("the server was unregistered", 0)
	})
}

// An update reaches the sessions that subscribed, and no other. The subscription stays while
// one of them has it, and over restarts.
func TestSubscribe(t *testing.T) {
	inBothEras(t, func(t *testing.T, version string) {
		ctx := t.Context()
		c := newClient(t, fixture("a", mcptest.Script{}))
		transport := Transport(c)
		uri := c.Resources()[0].URI
		type session struct {
			*mcp.ClientSession
			updates chan string
		}
		open := func() session {
			updates := make(chan string, 100)
			s := connect(t, transport, version, &mcp.ClientOptions{ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
				updates <- r.Params.URI
			}})
			return session{s, updates}
		}
		touch := func() {
			r, err := c.CallTool(ctx, "a/touch", map[string]any{"uri": uri})
			text(t, r, err)
		}
		one, two, none := open(), open(), open()
		for _, s := range []session{one, two} {
			require.NoError(t, s.Subscribe(ctx, &mcp.SubscribeParams{URI: uri}))
		}
		held := func(n int) func() bool {
			d := transport.(*gateway)
			return func() bool { return d.subscriptions.Sessions(resource.Name{Server: "a", URI: uri}) == n }
		}
		until(t, held(2))
		// In the modern era the client does not wait until its subscription stands.
		until(t, func() bool { touch(); return len(one.updates) > 0 && len(two.updates) > 0 })
		require.Equal(t, uri, receive(t, one.updates))

		require.NoError(t, one.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: uri}))
		until(t, held(1))
		drain(two.updates)
		touch()
		require.Equal(t, uri, receive(t, two.updates), "the other session keeps its subscription")

		drain(two.updates)
		_, err := c.CallTool(ctx, "a/crash", nil)
		require.ErrorIs(t, err, mcpvisor.ErrCrashed)
		require.Equal(t, uri, receive(t, two.updates), "after a restart it may have changed")
		require.NoError(t, c.WaitReady(ctx, "a"))
		require.NoError(t, two.Close())
		until(t, held(0))
		require.Empty(t, none.updates)
	})
}

func drain[T any](values <-chan T) {
	for {
		select {
		case <-values:
		default:
			return
		}
	}
}

// The acknowledgement of subscriptions/listen comes first, and says what is reported. Each
// notification names the request.
func TestListen(t *testing.T) {
	c := newClient(t, fixture("a", mcptest.Script{}))
	s := openRaw(t, Transport(c))
	uri := c.Resources()[0].URI
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
	s.send(7, "subscriptions/listen", `{`+meta+`,"notifications":{"toolsListChanged":true,"resourceSubscriptions":["`+uri+`","file:///nothing"]}}`)
	ack := s.read().(*jsonrpc.Request)
	require.Equal(t, "notifications/subscriptions/acknowledged", ack.Method)
	require.JSONEq(t, `{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"notifications":{"toolsListChanged":true,"resourceSubscriptions":["`+uri+`"]}}`, string(ack.Params))
	_, err := c.CallTool(t.Context(), "a/add_tool", map[string]any{"name": "fresh"})
	require.NoError(t, err)
	changed := s.read().(*jsonrpc.Request)
	require.Equal(t, "notifications/tools/list_changed", changed.Method)
	require.JSONEq(t, `{"_meta":{"io.modelcontextprotocol/subscriptionId":7}}`, string(changed.Params))
	require.EqualValues(t, jsonrpc.CodeInvalidRequest, s.callWith(7, "ping", "").Error.(*jsonrpc.Error).Code, "the id is in use")

	s.notify("notifications/cancelled", `{"requestId":7}`)
	until(t, func() bool { return s.callWith(7, "ping", "").Error == nil })
	require.Zero(t, s.conn.(*connection).notify.Count().Listeners, "nothing is reported any more")
}

// Log messages are passed on from the level that the session sets.
func TestSetLoggingLevel(t *testing.T) {
	ctx := t.Context()
	c := newClient(t, fixture("a", mcptest.Script{}))
	logs := make(chan *mcp.LoggingMessageParams, 100)
	s := connect(t, Transport(c), "2025-11-25", &mcp.ClientOptions{LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
		logs <- r.Params
	}})
	require.NoError(t, s.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: "warning"}))
	for _, level := range []string{"info", "error"} {
		_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "a/log", Arguments: map[string]any{"level": level, "text": "it is " + level}})
		require.NoError(t, err)
	}
	got := receive(t, logs)
	require.EqualValues(t, "error", got.Level)
	require.Equal(t, "it is error", got.Data)
	require.Error(t, s.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: "loud"}))
}

// After missed events a session is told what differs from what it knew.
func TestListChanged_after_missed_events(t *testing.T) {
	c := newClient(t, fixture("a", mcptest.Script{}))
	conn := openRaw(t, Transport(c)).conn.(*connection)
	conn.notify.StartSession()
	conn.hub.mu.Lock()
	conn.hub.told = &listing.Listing{} // as if it had missed that the server is ready
	conn.hub.mu.Unlock()
	conn.hub.report(mcpvisor.Event{Kind: mcpvisor.EventMissed, Missed: 1})
	require.Equal(t, "notifications/tools/list_changed", conn.notify.Next().(*jsonrpc.Request).Method)
	for conn.notify.Next() != nil {
	}
	conn.hub.report(mcpvisor.Event{Kind: mcpvisor.EventMissed, Missed: 1})
	require.Nil(t, conn.notify.Next(), "nothing has changed since")
}

// A session sets one level at a time, so that however many requests it sends, a server gets one.
func TestSetLoggingLevel_one_at_a_time(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took = time.Second
		c := newClient(t, fixture("a", mcptest.Script{Versions: []string{"2025-11-25"}, Faults: []mcptest.Fault{
			{At: mcptest.StageCall, Method: "logging/setLevel", Do: mcptest.ActionDelay, Delay: took}}}))
		s := openRaw(t, Transport(c))
		began := time.Now()
		for i, level := range []string{"debug", "error", "info"} {
			s.send(float64(i), "logging/setLevel", `{"level":"`+level+`"}`)
		}
		for i := range 3 {
			require.NoError(t, s.read().(*jsonrpc.Response).Error)
			require.Equal(t, time.Duration(i+1)*took, time.Since(began))
		}
	})
}
