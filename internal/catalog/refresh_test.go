package catalog

import (
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

func listed(name, about string) mcpvisor.Tool {
	return mcpvisor.Tool{Name: mcpvisor.Qualify("s", name), Server: "s", OriginalName: name, Alias: mcpvisor.Alias("s", name), Definition: &mcp.Tool{Name: name, Description: about}}
}

// A refresh replaces what was read and keeps the rest: tools with their names and
// aliases, what is said about each list, and how long it stays true. What was listed
// before is left as it was, for its readers.
func TestRefreshedReplacesWhatWasRead(t *testing.T) {
	old := NewCatalog([]mcpvisor.Tool{listed("gone", ""), listed("kept", ""), listed("changed", "old")}, []mcpvisor.Resource{{Server: "s", URI: "u:1"}}, nil, nil,
		[]string{"tools: cut", "resources: cut", "prompts: failed"})
	old.TTL = map[Lists]time.Duration{ListTools: time.Second, ListResources: time.Minute}
	fresh := NewCatalog([]mcpvisor.Tool{listed("a.new", ""), listed("kept", ""), listed("changed", "new")}, nil, nil, nil, []string{"prompts: failed again"})
	fresh.TTL = map[Lists]time.Duration{ListResources: time.Hour}
	before := *old

	next, change := old.Refreshed(fresh, ListTools)
	require.Equal(t, mcpvisor.Change{Tools: mcpvisor.Delta{Added: []string{"s/a.new"}, Removed: []string{"s/gone"}, Changed: []string{"s/changed"}}}, change)
	require.Len(t, next.Resources, 1)
	for name, there := range map[string]bool{"a.new": true, "kept": true, "gone": false} {
		_, found := next.Tool(name)
		require.Equal(t, there, found, name)
		_, found = next.ToolByAlias(mcpvisor.Alias("s", name))
		require.Equal(t, there, found, "alias of %s", name)
	}
	require.Equal(t, []string{"resources: cut", "prompts: failed again"}, next.Warnings)
	require.Equal(t, map[Lists]time.Duration{ListResources: time.Minute}, next.TTL)
	require.Equal(t, before, *old)
	require.Equal(t, map[Lists]time.Duration{ListTools: time.Second, ListResources: time.Minute}, old.TTL)
	require.Equal(t, []string{"tools: cut", "resources: cut", "prompts: failed"}, old.Warnings)

	next, change = next.Refreshed(fresh, ListResources|ListPrompts)
	require.Equal(t, []string{"u:1"}, change.Resources.Removed)
	require.Equal(t, []string{"prompts: failed again"}, next.Warnings)
	require.Equal(t, map[Lists]time.Duration{ListResources: time.Hour}, next.TTL)
}

func TestChangeIsZero(t *testing.T) {
	d := mcpvisor.Delta{Added: []string{"x"}}
	for _, c := range []mcpvisor.Change{{Tools: d}, {Resources: d}, {Templates: d}, {Prompts: d}, {Tools: mcpvisor.Delta{Removed: d.Added}}, {Tools: mcpvisor.Delta{Changed: d.Added}}} {
		require.False(t, c.IsZero())
	}
	require.True(t, new(mcpvisor.Change).IsZero())
	require.True(t, (*mcpvisor.Change)(nil).IsZero())
}
