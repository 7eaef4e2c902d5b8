package servers

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/defaults"
)

// A start is waited for until the server's own timeouts have ended it.
func TestStartTimeout(t *testing.T) {
	c := Copies{Specs: map[string]mcpvisor.ServerSpec{"a": {}, "b": {Timeouts: mcpvisor.Timeouts{Start: 1, List: -1}}}}
	require.Equal(t, defaults.StartTimeout+defaults.ListTimeout+StartSlack, c.startTimeout())

	for _, name := range []string{"c", "d", "e", "f", "g", "h", "i"} { // the seventh waits for two others, one after the other
		c.Specs[name] = mcpvisor.ServerSpec{Stdio: &mcpvisor.Stdio{Command: "npx", Args: []string{"-y", name}}}
	}
	require.Equal(t, defaults.StartTimeout+defaults.ListTimeout+2*defaults.RunnerHold+StartSlack, c.startTimeout())
}

// A server is known not to answer if its last attempt has failed, or if this one takes long.
func TestIsMute(t *testing.T) {
	now := time.Now()
	failed, served := []mcpvisor.Incarnation{{}}, []mcpvisor.Incarnation{{}, {Served: true}}
	for name, c := range map[string]struct {
		history []mcpvisor.Incarnation
		since   time.Duration
		want    bool
	}{
		"first start":             {nil, time.Second, false},
		"first start, long":       {nil, usualStart + 1, true},
		"comes back":              {served, time.Second, false},
		"comes back, long":        {served, usualStart + 1, true},
		"never answered so far":   {failed, time.Second, true},
		"answered, and then died": {append(failed, served...), time.Second, false},
	} {
		require.Equal(t, c.want, isMute(mcpvisor.ServerStatus{History: c.history, Since: now.Add(-c.since)}, now), name)
	}
}

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

// A server whose tools cost much is said to, with what to do, in a text that a table does not cut.
func TestCostText(t *testing.T) {
	s := mcpvisor.ServerStatus{Catalog: mcpvisor.CatalogInfo{Tokens: costlyTokens}}
	require.Empty(t, CostText(&s))
	s.Catalog.Tokens = 1_070_042
	require.Contains(t, CostText(&s), `costs a model about 1070k tokens; choose tools by "tools" in its entry, or by a profile of "gateway"`)
	require.LessOrEqual(t, len(CostText(&s)), 100)
}
