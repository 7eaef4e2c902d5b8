package facade_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// sdkServer is a server that is made with the go-sdk and watches what it is asked
// to, but for x:bad.
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

// eachWay registers such a server behind one pipe, where it keeps its listeners by
// session, and over HTTP, where each stream is a request of its own.
func eachWay(t *testing.T, f func(t *testing.T, c *facade.Client, srv *mcp.Server)) {
	t.Helper()
	run := func(name string, reach func(t *testing.T, srv *mcp.Server) mcpvisor.ServerSpec) {
		t.Run(name, func(t *testing.T) {
			srv := sdkServer()
			spec := reach(t, srv)
			spec.Name = "s"
			c := newClient(t)
			require.NoError(t, c.Register(t.Context(), spec))
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

func seesTool(t *testing.T, c *facade.Client, srv *mcp.Server, name string) {
	t.Helper()
	addTool(srv, name)
	require.Eventually(t, func() bool { return lists(c, "s/"+name) }, 10*time.Second, time.Millisecond, "list_changed is not heard any more: %s", name)
}

func hearsOf(t *testing.T, srv *mcp.Server, updates <-chan mcpvisor.Event, uri string) {
	t.Helper()
	for len(updates) > 0 { // of streams that took the place of others
		<-updates
	}
	require.NoError(t, srv.ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: uri}))
	for e := next(t, updates); e.URI != uri; e = next(t, updates) {
	}
}

// What a server refuses to watch costs neither the news of its lists nor what it
// watches already.
func TestSubscribe_rejection_affects_no_other_subscription(t *testing.T) {
	eachWay(t, func(t *testing.T, c *facade.Client, srv *mcp.Server) {
		updates := watch(t, c, mcpvisor.EventResourceUpdated)
		require.NoError(t, c.Subscribe(t.Context(), "s", "x:a"))
		seesTool(t, c, srv, "second")
		for i := range 10 {
			require.ErrorContains(t, c.Subscribe(t.Context(), "s", "x:bad"), "no such resource")
			seesTool(t, c, srv, fmt.Sprint("third", i))
			hearsOf(t, srv, updates, "x:a")
		}
	})
}

// However subscriptions come and go, all that is watched is heard of.
func TestSubscribe_and_Unsubscribe_many(t *testing.T) {
	eachWay(t, func(t *testing.T, c *facade.Client, srv *mcp.Server) {
		updates := watch(t, c, mcpvisor.EventResourceUpdated)
		require.NoError(t, c.Subscribe(t.Context(), "s", "x:a"))
		for i := range 20 { // more than there are streams
			uri := fmt.Sprint("x:", i)
			require.NoError(t, c.Subscribe(t.Context(), "s", uri))
			if i%3 == 0 {
				seesTool(t, c, srv, fmt.Sprint("t", i))
			}
			hearsOf(t, srv, updates, "x:a")
			hearsOf(t, srv, updates, uri)
			if i%5 == 4 {
				require.NoError(t, c.Unsubscribe(t.Context(), "s", fmt.Sprint("x:", i-3)))
				seesTool(t, c, srv, fmt.Sprint("u", i))
				hearsOf(t, srv, updates, fmt.Sprint("x:", i-1))
			}
		}
	})
}
