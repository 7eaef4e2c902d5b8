package servers

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor"
)

func TestAliasOwners(t *testing.T) {
	long := strings.Repeat("long-server-name", 4)
	servers := []string{"one", "one.two", "a__b", long}
	for _, server := range servers {
		for _, tool := range []string{"x", "a.b", strings.Repeat("tool", 20), "y_01234567"} {
			require.Equal(t, []string{server}, aliasOwners(mcpvisor.Alias(server, tool), servers), server+"/"+tool)
		}
	}
	require.Empty(t, aliasOwners("mcp__other__x", servers))
}

// The server of an alias is always among its owners.
func TestAliasOwners_any_names(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		server := rapid.StringMatching(`[a-zA-Z0-9_.-]{1,70}`).Draw(t, "server")
		tool := rapid.StringN(1, 70, -1).Draw(t, "tool")
		require.Contains(t, aliasOwners(mcpvisor.Alias(server, tool), []string{"other", server}), server)
	})
}
