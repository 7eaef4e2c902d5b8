package gateway

import (
	"context"
	"fmt"
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
		s := connect(t, Transport(c, WithOnDown(Withdraw())), version, &mcp.ClientOptions{
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

// Changes that were not read yet are one notification, and answers do not wait for them.
func TestNotifier_coalesces(t *testing.T) {
	n := newNotifier()
	n.reportLists(listing.AllLists)
	require.Nil(t, n.next(), "the session has not begun")
	n.startSession()
	held := &subscription{Name: resource.Name{Server: "a", URI: "file:///x"}}
	require.True(t, n.subscribe(held, "file:///x"))
	require.False(t, n.subscribe(&subscription{Name: resource.Name{Server: "a", URI: "file:///x"}}, "file:///x"))
	n.setLogLevel(0)
	for i := range 1000 {
		n.reportLists(listing.ToolList)
		n.reportUpdate("a", "file:///x")
		n.reportUpdate("a", "file:///x/part")
		n.reportUpdate("a", "file:///y")
		n.reportUpdate("a", "file:///xy")
		n.reportUpdate("b", "file:///x")
		n.reportLog(mcpvisor.LogMessage{Level: "info", Text: fmt.Sprint(i)})
	}
	n.reportLists(listing.PromptList)
	var got []string
	for m := n.next(); m != nil; m = n.next() {
		r := m.(*jsonrpc.Request)
		got = append(got, r.Method+" "+string(r.Params))
	}
	require.Equal(t, []string{
		"notifications/tools/list_changed {}",
		"notifications/prompts/list_changed {}",
		`notifications/resources/updated {"uri":"file:///x"}`,
		`notifications/resources/updated {"uri":"file:///x/part"}`,
	}, got[:4])
	require.Len(t, got, 4+maxLogs)
	require.Equal(t, `notifications/message {"level":"info","data":999}`, got[len(got)-1], "the oldest messages are dropped")
	require.Equal(t, []*subscription{held}, n.close())
	require.False(t, n.subscribe(&subscription{Name: resource.Name{Server: "a", URI: "file:///z"}}, "file:///z"))
}

// A peer of 2026-07-28 reads the lists before it listens. What changes between is not lost.
func TestNotifier_reports_what_changed_before_it_was_asked_to(t *testing.T) {
	n := newNotifier()
	n.reportLists(listing.ToolList | listing.PromptList)
	require.Nil(t, n.next())
	first := &listener{lists: listing.ToolList | listing.ResourceList}
	require.True(t, n.listen(first))
	require.Equal(t, "notifications/tools/list_changed", n.next().(*jsonrpc.Request).Method)
	require.Nil(t, n.next())
	require.True(t, n.listen(&listener{lists: listing.AllLists}))
	require.Equal(t, "notifications/prompts/list_changed", n.next().(*jsonrpc.Request).Method)
	require.Nil(t, n.next(), "the first listener has heard of the tools")
}

// A part of a resource continues with a path, a query or a fragment.
func TestIsPartOf(t *testing.T) {
	for _, uri := range []string{"mem://a", "mem://a/b", "mem://a?b", "mem://a#b"} {
		require.True(t, isPartOf(uri, "mem://a"), uri)
	}
	for _, uri := range []string{"mem://ab", "mem://", "mem://b/a", ""} {
		require.False(t, isPartOf(uri, "mem://a"), uri)
	}
	require.True(t, isPartOf("file:///folder/file", "file:///folder/"))
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
	notify := s.conn.(*connection).out.notify
	notify.mu.Lock()
	defer notify.mu.Unlock()
	require.Empty(t, notify.listeners, "nothing is reported any more")
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
	conn.notify.startSession()
	conn.hub.mu.Lock()
	conn.hub.told = &listing.Listing{} // as if it had missed that the server is ready
	conn.hub.mu.Unlock()
	conn.hub.report(mcpvisor.Event{Kind: mcpvisor.EventMissed, Missed: 1})
	require.Equal(t, "notifications/tools/list_changed", conn.notify.next().(*jsonrpc.Request).Method)
	for conn.notify.next() != nil {
	}
	conn.hub.report(mcpvisor.Event{Kind: mcpvisor.EventMissed, Missed: 1})
	require.Nil(t, conn.notify.next(), "nothing has changed since")
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
