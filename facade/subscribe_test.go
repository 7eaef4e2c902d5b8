package facade_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// Subscriptions and the logging level are set again after a restart and after a crash.
func TestSubscribe_and_logging_level_survive_restarts(t *testing.T) {
	onEveryTransport(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c := newClient(t)
		events := watch(t, c, mcpvisor.EventResourceUpdated, mcpvisor.EventLog)
		// logged returns the next log message, and how many updates came before it.
		logged := func() (line mcpvisor.LogMessage, updates int) {
			for e := next(t, events); ; e = next(t, events) {
				if e.Kind == mcpvisor.EventLog {
					return *e.Log, updates
				}
				require.Equal(t, "mcptest://text", e.URI)
				updates++
			}
		}
		require.NoError(t, c.Register(t.Context(), spec))
		require.NoError(t, c.Subscribe(t.Context(), "s", "mcptest://text"))
		require.NoError(t, c.SetLoggingLevel(t.Context(), "s", "warning"))
		requireUpdateAndLog := func() {
			// A stream that was cut is opened again after a pause; until then no update arrives.
			until(t, func() bool {
				call(t, c, "s/touch", map[string]any{"uri": "mcptest://other"}) // not subscribed
				call(t, c, "s/touch", map[string]any{"uri": "mcptest://text"})
				select {
				case e := <-events:
					require.Equal(t, mcpvisor.EventResourceUpdated, e.Kind)
					require.Equal(t, "mcptest://text", e.URI)
					return true
				case <-time.After(50 * time.Millisecond):
					return false
				}
			})
			call(t, c, "s/log", map[string]any{"level": "info", "text": "not this"})
			call(t, c, "s/log", map[string]any{"level": "error", "text": "but this"})
			line, _ := logged()
			require.Equal(t, mcpvisor.LogMessage{Level: "error", Logger: "mcptest", Text: "but this"}, line)
		}
		requireUpdateAndLog()
		restart(t, c)
		requireUpdateAndLog()
		crash(t, c)
		requireUpdateAndLog()
		require.NoError(t, c.Unsubscribe(t.Context(), "s", "mcptest://text"))
		call(t, c, "s/log", map[string]any{"level": "error", "text": "before"})
		line, _ := logged()
		require.Equal(t, "before", line.Text)
		call(t, c, "s/touch", map[string]any{"uri": "mcptest://text"})
		call(t, c, "s/log", map[string]any{"level": "error", "text": "after"})
		line, updates := logged()
		require.Equal(t, "after", line.Text)
		if spec.HTTP == nil { // on a pipe the order is kept
			require.Zero(t, updates)
		}
	})
}

func TestSubscribe_errors(t *testing.T) {
	c := newClient(t)
	refuses := &mcpvisor.InMemory{Serve: rawServer(func(string, string) string { return "" }).Serve}
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraModern, InMemory: mcptest.InMemory(mcptest.Script{
		Versions: []string{"2026-07-28"}, NoResources: true, NoTools: true,
		Faults: []mcptest.Fault{{At: mcptest.StageCall, Method: "subscriptions/listen", Do: mcptest.ActionError, Text: "not here"}}})}))
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "raw", InMemory: refuses}))
	err := c.Subscribe(t.Context(), "s", "mcptest://text")
	require.ErrorContains(t, err, "not here")
	require.ErrorIs(t, c.Subscribe(t.Context(), "s", ""), mcpvisor.ErrInvalid)
	require.ErrorIs(t, c.Subscribe(t.Context(), "unknown", "x:y"), mcpvisor.ErrUnknownServer)
	require.ErrorIs(t, c.SetLoggingLevel(t.Context(), "s", "loud"), mcpvisor.ErrInvalid)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = c.Subscribe(ctx, "raw", "x:y") // the context or the answer may be first
}

// sdkServer is a go-sdk server that accepts every subscription but that of x:bad.
func sdkServer() *mcp.Server {
	srv := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler: func(_ context.Context, r *mcp.SubscribeRequest) error {
			if r.Params.URI == "x:bad" {
				return errors.New("no such resource")
			}
			return nil
		},
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	addTool(srv, "first")
	srv.AddResource(&mcp.Resource{URI: "x:a", Name: "a"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{}, nil
	})
	return srv
}

func addTool(srv *mcp.Server, name string) {
	mcp.AddTool(srv, &mcp.Tool{Name: name}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{}, nil, nil
	})
}

// overPipeAndHTTP registers such a server on a pipe, where it keeps its subscribers by
// session, and over HTTP, where each stream is a request of its own.
func overPipeAndHTTP(t *testing.T, f func(t *testing.T, c *facade.Client, srv *mcp.Server)) {
	t.Helper()
	run := func(name string, reach func(t *testing.T, srv *mcp.Server) mcpvisor.ServerSpec) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := sdkServer()
			spec := reach(t, srv)
			spec.Name = "s"
			c := registered(t, spec)
			st, _ := c.ServerStatus("s")
			require.Equal(t, "2026-07-28", st.Session.ProtocolVersion)
			f(t, c, srv)
		})
	}
	run("pipe", func(_ *testing.T, srv *mcp.Server) mcpvisor.ServerSpec {
		return mcpvisor.ServerSpec{InMemory: &mcpvisor.InMemory{Serve: func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, _ io.Writer) error {
			return srv.Run(ctx, &mcp.IOTransport{Reader: in, Writer: out})
		}}}
	})
	run("HTTP", func(t *testing.T, srv *mcp.Server) mcpvisor.ServerSpec {
		web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, &mcp.StreamableHTTPOptions{Stateless: true}))
		t.Cleanup(web.Close)
		return mcpvisor.ServerSpec{HTTP: &mcpvisor.HTTP{URL: web.URL}}
	})
}

func requireListed(t *testing.T, c *facade.Client, srv *mcp.Server, name string) {
	t.Helper()
	addTool(srv, name)
	require.Eventually(t, func() bool { return lists(c, "s/"+name) }, 10*time.Second, time.Millisecond, "the client missed list_changed of %s", name)
}

func requireUpdate(t *testing.T, srv *mcp.Server, updates <-chan mcpvisor.Event, uri string) {
	t.Helper()
	for len(updates) > 0 { // of streams that replaced others
		<-updates
	}
	require.NoError(t, srv.ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: uri}))
	for e := next(t, updates); e.URI != uri; e = next(t, updates) {
	}
}

// Updates of all subscribed resources arrive while others are added and removed.
func TestSubscribe_and_Unsubscribe_many(t *testing.T) {
	overPipeAndHTTP(t, func(t *testing.T, c *facade.Client, srv *mcp.Server) {
		updates := watch(t, c, mcpvisor.EventResourceUpdated)
		require.NoError(t, c.Subscribe(t.Context(), "s", "x:a"))
		for i := range 20 { // more than there are streams
			uri := fmt.Sprint("x:", i)
			require.NoError(t, c.Subscribe(t.Context(), "s", uri))
			if i%3 == 0 {
				requireListed(t, c, srv, fmt.Sprint("t", i))
			}
			requireUpdate(t, srv, updates, "x:a")
			requireUpdate(t, srv, updates, uri)
			if i%5 == 4 {
				require.NoError(t, c.Unsubscribe(t.Context(), "s", fmt.Sprint("x:", i-3)))
				requireListed(t, c, srv, fmt.Sprint("u", i))
				requireUpdate(t, srv, updates, fmt.Sprint("x:", i-1))
			}
		}
	})
}

// A tool that a server adds or removes is listed or unlisted in one step, also after a
// restart.
func TestListChanged_on_every_transport(t *testing.T) {
	onEveryTransport(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c := newClient(t)
		changes := watch(t, c, mcpvisor.EventChanged)
		require.NoError(t, c.Register(t.Context(), spec))
		before := len(c.Tools())
		for round := range 2 {
			call(t, c, "s/add_tool", map[string]any{"name": "fresh"})
			e := next(t, changes)
			require.Equal(t, mcpvisor.Delta{Added: []string{"s/fresh"}}, e.Change.Tools)
			require.Equal(t, before+1, e.Tools)
			require.True(t, lists(c, "s/fresh"))
			call(t, c, "s/fresh", nil)

			call(t, c, "s/remove_tool", map[string]any{"name": "fresh"})
			require.Equal(t, mcpvisor.Delta{Removed: []string{"s/fresh"}}, next(t, changes).Change.Tools)
			require.False(t, lists(c, "s/fresh"))
			if round == 0 {
				restart(t, c)
			}
		}
	})
}

// A thousand announcements cause few readings of the list.
func TestListChanged_flood_is_coalesced(t *testing.T) {
	var listed, added atomic.Int64
	const announcements = 1000
	c := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: rawServer(func(method, _ string) string {
		switch method {
		case "initialize":
			return `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"raw","version":"1"}}`
		case "tools/list":
			listed.Add(1)
			return fmt.Sprintf(`{"tools":[{"name":"x","inputSchema":{"type":"object"}},{"name":"n%d","inputSchema":{"type":"object"}}]}`, added.Load())
		case "tools/call":
			added.Add(1)
			return `{"content":[]}}` + "\n" + strings.Repeat(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`+"\n", announcements/10) + `{"x":1`
		}
		return ""
	})})
	before := listed.Load()
	for range 10 {
		call(t, c, "s/x", nil)
	}
	require.Eventually(t, func() bool { return lists(c, "s/n10") }, 20*time.Second, time.Millisecond, "the listing equals that of the server in the end")
	require.LessOrEqual(t, listed.Load()-before, int64(10))
}

func TestRefresh(t *testing.T) {
	c := newClient(t)
	var tool atomic.Value
	tool.Store("old")
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: rawServer(func(method, _ string) string {
		if method == "tools/list" {
			switch name := tool.Load().(string); name {
			case "broken":
				return `"no list"`
			default:
				return `{"tools":[{"name":"` + name + `"}]}`
			}
		}
		return ""
	})}))
	tool.Store("new")
	require.NoError(t, c.Refresh(t.Context(), "s"))
	require.True(t, lists(c, "s/new") && !lists(c, "s/old"))
	tool.Store("broken")
	require.NoError(t, c.Refresh(t.Context(), "s"), "the other lists were read")
	require.True(t, lists(c, "s/new"), "a list that cannot be read stays as it is")
	tool.Store("newer")
	require.Eventually(t, func() bool { return lists(c, "s/newer") }, 20*time.Second, 5*time.Millisecond, "it is tried again")

	require.ErrorIs(t, c.Refresh(t.Context(), "unknown"), mcpvisor.ErrUnknownServer)
}
