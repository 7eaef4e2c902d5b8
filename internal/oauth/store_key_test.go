package oauth

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// Each server, client and account has a key of its own, and no key holds a secret of
// the URL.
func TestStoreKey(t *testing.T) {
	key := func(o mcpvisor.OAuth, address string) mcpvisor.TokenKey {
		u, err := url.Parse(address)
		require.NoError(t, err)
		return storeKey(&o, u)
	}
	require.Equal(t, mcpvisor.TokenKey{Server: "https://mcp.example/mcp"}, key(mcpvisor.OAuth{}, "https://user:pass@mcp.example/mcp#part"))
	require.Equal(t, mcpvisor.TokenKey{Server: "https://mcp.example/mcp", Client: "me", Account: "work"},
		key(mcpvisor.OAuth{ClientID: "me", ClientMetadataURL: "https://host.example/c.json", Account: "work"}, "https://mcp.example/mcp"))
	require.Equal(t, "https://host.example/c.json", key(mcpvisor.OAuth{ClientMetadataURL: "https://host.example/c.json"}, "https://mcp.example/mcp").Client)
	one, two := key(mcpvisor.OAuth{}, "https://mcp.example/mcp?key=canary-1"), key(mcpvisor.OAuth{}, "https://mcp.example/mcp?key=canary-2")
	require.NotEqual(t, one, two)
	require.NotContains(t, one.Server, "canary")
}
