package catalog

import (
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// listed returns a tool of server "s".
func listed(name, description string) mcpvisor.Tool {
	return mcpvisor.Tool{Name: mcpvisor.Qualify("s", name), Server: "s", OriginalName: name, Alias: mcpvisor.Alias("s", name), Definition: &mcp.Tool{Name: name, Description: description}}
}

// A refresh replaces the lists that were read, with their names, aliases, warnings and TTL,
// and keeps the rest. The old catalog is unchanged: others still read it.
func TestRefreshed(t *testing.T) {
	failedAgain := []mcpvisor.Warning{{List: NamePrompts, Text: "failed again"}}
	old := New(Catalog{Tools: []mcpvisor.Tool{listed("gone", ""), listed("kept", ""), listed("changed", "old")},
		Resources: []mcpvisor.Resource{{Server: "s", URI: "u:1"}},
		Warnings: []mcpvisor.Warning{{List: NameTools, Text: "cut"}, {List: NameTemplates, Text: "cut"}, {List: NamePrompts, Text: "failed"},
			{Text: "about no list"}}})
	old.TTL = map[Lists]time.Duration{ListTools: time.Second, ListResources: time.Minute}
	fresh := New(Catalog{Tools: []mcpvisor.Tool{listed("a.new", ""), listed("kept", ""), listed("changed", "new")}, Warnings: failedAgain})
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
	require.Equal(t, []mcpvisor.Warning{{List: NameTemplates, Text: "cut"}, failedAgain[0]}, next.Warnings)
	require.Equal(t, map[Lists]time.Duration{ListResources: time.Minute}, next.TTL)
	require.Equal(t, before, *old)
	require.Equal(t, map[Lists]time.Duration{ListTools: time.Second, ListResources: time.Minute}, old.TTL)
	require.Len(t, old.Warnings, 4)

	next, change = next.Refreshed(fresh, ListResources|ListPrompts)
	require.Equal(t, []string{"u:1"}, change.Resources.Removed)
	require.Equal(t, failedAgain, next.Warnings)
	require.Equal(t, map[Lists]time.Duration{ListResources: time.Hour}, next.TTL)
}

func TestChangeIsZero(t *testing.T) {
	d := mcpvisor.Delta{Added: []string{"x"}}
	for _, c := range []mcpvisor.Change{{Instructions: true}, {Tools: d}, {Resources: d}, {Templates: d}, {Prompts: d}, {Tools: mcpvisor.Delta{Removed: d.Added}}, {Tools: mcpvisor.Delta{Changed: d.Added}}} {
		require.False(t, c.IsZero())
	}
	require.True(t, new(mcpvisor.Change).IsZero())
	require.True(t, (*mcpvisor.Change)(nil).IsZero())
}
