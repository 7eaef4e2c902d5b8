package catalog

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

func TestOffered(t *testing.T) {
	tool := func(name string) mcpvisor.Tool {
		return mcpvisor.Tool{Name: mcpvisor.Qualify("fs", name), Server: "fs", OriginalName: name, Alias: mcpvisor.Alias("fs", name)}
	}
	c := New(Catalog{Tools: []mcpvisor.Tool{tool("list"), tool("say.it"), tool("write")}, Resources: []mcpvisor.Resource{{URI: "x:y"}}, Prompts: []mcpvisor.Prompt{{OriginalName: "p"}}, Warnings: []mcpvisor.Warning{{Text: "before"}}})
	got := c.Offered(mcpvisor.ToolFilter{Deny: []string{"wr*", "say.it", "nonesuch*"}})
	require.Len(t, got.Tools, 1)
	require.Equal(t, 2, got.Hidden)
	require.Len(t, got.Resources, 1)
	require.Len(t, got.Prompts, 1)
	require.Equal(t, []mcpvisor.Warning{{Text: "before"}, {List: NameTools, Text: `tool pattern "nonesuch*" matches no tool of this server`}}, got.Warnings)
	for _, name := range []string{"write", "say.it"} {
		_, found := got.Tool(name)
		require.False(t, found)
		_, found = got.ToolByAlias(mcpvisor.Alias("fs", name))
		require.False(t, found)
	}
	_, found := got.ToolByAlias(mcpvisor.Alias("fs", "list"))
	require.True(t, found)
	require.Len(t, c.Tools, 3, "the catalog that was filtered is unchanged")
	require.Len(t, c.Warnings, 1)
	require.Same(t, c, c.Offered(mcpvisor.ToolFilter{}))
	require.Nil(t, (*Catalog)(nil).Offered(mcpvisor.ToolFilter{Deny: []string{"*"}}))

	next, change := got.Refreshed(New(Catalog{Tools: []mcpvisor.Tool{tool("list"), tool("new")}}).Offered(mcpvisor.ToolFilter{Deny: []string{"list"}}), ListTools)
	require.Equal(t, 1, next.Hidden)
	require.Equal(t, []string{"fs/new"}, change.Tools.Added)
	require.Equal(t, []string{"fs/list"}, change.Tools.Removed)
}
