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

// A rejected subscription affects neither list announcements nor other subscriptions.
func TestSubscribe_rejection_affects_no_other_subscription(t *testing.T) {
	overPipeAndHTTP(t, func(t *testing.T, c *facade.Client, srv *mcp.Server) {
		updates := watch(t, c, mcpvisor.EventResourceUpdated)
		require.NoError(t, c.Subscribe(t.Context(), "s", "x:a"))
		requireListed(t, c, srv, "second")
		for i := range 10 {
			require.ErrorContains(t, c.Subscribe(t.Context(), "s", "x:bad"), "no such resource")
			requireListed(t, c, srv, fmt.Sprint("third", i))
			requireUpdate(t, srv, updates, "x:a")
		}
	})
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
