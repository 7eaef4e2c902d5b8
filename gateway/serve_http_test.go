package gateway_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// What the example of Streamable HTTP does not show: notifications reach the client, a session
// survives those that no client reads, and DELETE ends it.
func TestServe_http(t *testing.T) {
	ctx := t.Context()
	client, err := facade.New()
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close(context.Background())) }()
	require.NoError(t, client.Register(ctx, mcpvisor.ServerSpec{Name: "a", InMemory: mcptest.InMemory(mcptest.Script{})}))
	handler := &httpSessions{ctx: ctx, inner: gateway.Transport(client), open: map[string]httpSession{}}
	server := httptest.NewServer(handler)
	defer server.Close()
	const patience = 30 * time.Second
	for _, withoutGET := range []bool{false, true} {
		updates := make(chan string, 100)
		host := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, &mcp.ClientOptions{
			ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { updates <- r.Params.URI }})
		session, err := host.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: server.URL, DisableStandaloneSSE: withoutGET}, nil)
		require.NoError(t, err)
		uri := client.Resources()[0].URI
		require.NoError(t, session.Subscribe(ctx, &mcp.SubscribeParams{URI: uri}))
		for _, tool := range []string{"touch", "add_tool", "touch"} {
			r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "a/" + tool, Arguments: map[string]any{"uri": uri, "name": "fresh"}})
			require.NoError(t, err)
			require.False(t, r.IsError)
		}
		if !withoutGET {
			select {
			case got := <-updates:
				require.Equal(t, uri, got)
			case <-time.After(patience):
				require.Fail(t, "no update")
			}
		}
		_, err = session.ListTools(ctx, nil)
		require.NoError(t, err)
		require.NoError(t, session.Close())
		require.Eventually(t, func() bool {
			handler.mu.Lock()
			defer handler.mu.Unlock()
			return len(handler.open) == 0
		}, patience, time.Millisecond)
	}
}
