package catalog

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// listed returns a tool of server "s".
func listed(name, description string) mcpvisor.Tool {
	return mcpvisor.Tool{Name: mcpvisor.Qualify("s", name), Server: "s", OriginalName: name, Alias: mcpvisor.Alias("s", name),
		Raw: json.RawMessage(`{"name":"` + name + `","description":"` + description + `"}`)}
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

// A list that says the same stays as it was, whatever its bytes, also in part of a refresh. The comparison
// looks at a bounded number of bytes; beyond that other bytes are a change.
func TestRefreshed_equal_lists(t *testing.T) {
	tool := func(name, raw string) mcpvisor.Tool {
		return mcpvisor.Tool{Name: "s/" + name, OriginalName: name, Raw: json.RawMessage(raw)}
	}
	catalogOf := func(raw string) *Catalog {
		return New(Catalog{Tools: []mcpvisor.Tool{tool("a", raw), tool("b", raw)}, Resources: []mcpvisor.Resource{{URI: "u", Raw: json.RawMessage(raw)}},
			Templates: []mcpvisor.ResourceTemplate{{URITemplate: "u", Raw: json.RawMessage(raw)}}, Prompts: []mcpvisor.Prompt{{Name: "s/p", OriginalName: "p", Raw: json.RawMessage(raw)}}})
	}
	old, fresh := catalogOf(`{"x":1,"y":{"z":1,"w":[2,1]}}`), catalogOf(`{"y":{"w":[2,1],"z":1},"\u0078":1}`)
	fresh.Hidden = 3
	next, change := old.Refreshed(fresh, AllLists)
	require.True(t, change.IsZero(), "%s", &change)
	require.Equal(t, old.Tools, next.Tools)
	require.Equal(t, old.Resources, next.Resources)
	require.Equal(t, old.Templates, next.Templates)
	require.Equal(t, old.Prompts, next.Prompts)
	require.Equal(t, 3, next.Hidden)
	require.Greater(t, next.Version, fresh.Version)

	fresh.Tools[1].Raw = json.RawMessage(`{"y":{"w":[1,2],"z":1},"x":1}`)
	next, change = old.Refreshed(fresh, AllLists)
	require.Equal(t, mcpvisor.Change{Tools: mcpvisor.Delta{Changed: []string{"s/b"}}}, change)
	require.Equal(t, fresh.Tools, next.Tools, "no list keeps parts of old pages")
	require.Equal(t, old.Resources, next.Resources)

	long := strings.Repeat(" ", maxCompared/5)
	_, change = catalogOf(`{"x":1,"y":2}`+long).Refreshed(catalogOf(`{"y":2,"x":1}`+long), AllLists)
	require.Empty(t, change.Tools.Changed, "two pairs fit")
	require.Equal(t, []string{"u"}, change.Resources.Changed)
	require.Equal(t, []string{"s/p"}, change.Prompts.Changed)
}
