package facade

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// A copy whose Close does not wait is forgotten by its original when it has ended.
func TestClient_CopyServer_closed_without_waiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New()
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close(context.Background())) }()
		server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
		require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: ServeInMemory(server)}))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range 3 {
			made, err := relayed{c}.CopyServer("s")
			require.NoError(t, err)
			require.NoError(t, made.WaitReady(t.Context()))
			if err := made.Close(ended); err != nil { // the copy may have ended before Close looks at the context
				require.ErrorIs(t, err, mcpvisor.ErrCanceled)
			}
		}
		require.NoError(t, c.Restart(t.Context(), "s"))
		synctest.Wait()
		require.Empty(t, c.copies.open)
	})
}
