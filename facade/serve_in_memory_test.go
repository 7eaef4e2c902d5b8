package facade_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// A handler of a server in this process that panics ends neither the process nor the server.
func TestServeInMemory_panic_in_a_tool(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "break"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		panic("broken")
	})
	for _, era := range []mcpvisor.Era{mcpvisor.EraLegacy, mcpvisor.EraModern} {
		c, err := facade.New()
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close(context.Background())) }()
		require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Era: era, InMemory: facade.ServeInMemory(server)}))
		for range 2 {
			_, err = c.CallTool(t.Context(), "s/break", nil)
			require.ErrorIs(t, err, mcpvisor.ErrRPC)
			require.ErrorContains(t, err, "panic in the server: broken")
		}
		require.Eventually(t, func() bool {
			stderr, _ := c.Stderr("s")
			text := strings.Join(append(stderr.First, stderr.Lines...), "\n")
			return strings.Contains(text, "panic in tools/call") && strings.Contains(text, "serve_in_memory_test.go")
		}, 20*time.Second, time.Millisecond)
	}
}
