package catalog

import (
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor"
)

// tool returns a tool as package discovery makes it.
func tool(server, name, description string) mcpvisor.Tool {
	return mcpvisor.Tool{Name: mcpvisor.Qualify(server, name), Server: server, OriginalName: name, Alias: mcpvisor.Alias(server, name),
		Definition: &mcp.Tool{Name: name, Description: description}}
}

func TestNew_sorts(t *testing.T) {
	c := New(Catalog{
		Tools:     []mcpvisor.Tool{tool("s", "b", ""), tool("s", "a", ""), tool("s", "B", "")},
		Resources: []mcpvisor.Resource{{URI: "file:///b"}, {URI: "file:///a"}},
		Templates: []mcpvisor.ResourceTemplate{{URITemplate: "x/{b}"}, {URITemplate: "x/{a}"}},
		Prompts:   []mcpvisor.Prompt{{OriginalName: "q"}, {OriginalName: "p"}},
	})
	require.Equal(t, []string{"B", "a", "b"}, []string{c.Tools[0].OriginalName, c.Tools[1].OriginalName, c.Tools[2].OriginalName})
	require.Equal(t, []mcpvisor.Resource{{URI: "file:///a"}, {URI: "file:///b"}}, c.Resources)
	require.Equal(t, []mcpvisor.ResourceTemplate{{URITemplate: "x/{a}"}, {URITemplate: "x/{b}"}}, c.Templates)
	require.Equal(t, []mcpvisor.Prompt{{OriginalName: "p"}, {OriginalName: "q"}}, c.Prompts)
	require.Empty(t, c.Warnings)
}

func TestNew_keeps_the_first_of_duplicates(t *testing.T) {
	c := New(Catalog{
		Tools:     []mcpvisor.Tool{tool("s", "b", "first"), tool("s", "a", ""), tool("s", "b", "second"), tool("s", "b", "third")},
		Resources: []mcpvisor.Resource{{URI: "u", Server: "1"}, {URI: "u", Server: "2"}},
		Templates: []mcpvisor.ResourceTemplate{{URITemplate: "t", Server: "1"}, {URITemplate: "t", Server: "2"}},
		Prompts:   []mcpvisor.Prompt{{OriginalName: "p", Server: "1"}, {OriginalName: "p", Server: "2"}},
		Warnings:  []mcpvisor.Warning{{Text: "an earlier warning"}},
	})
	require.Len(t, c.Tools, 2)
	require.Equal(t, "first", c.Tools[1].Definition.Description)
	require.Equal(t, []mcpvisor.Resource{{URI: "u", Server: "1"}}, c.Resources)
	require.Equal(t, []mcpvisor.ResourceTemplate{{URITemplate: "t", Server: "1"}}, c.Templates)
	require.Equal(t, []mcpvisor.Prompt{{OriginalName: "p", Server: "1"}}, c.Prompts)
	require.Equal(t, []mcpvisor.Warning{
		{Text: "an earlier warning"},
		{List: "tools", Text: `"b" is listed twice; the first one is kept`},
		{List: "tools", Text: `"b" is listed twice; the first one is kept`},
		{List: "resources", Text: `"u" is listed twice; the first one is kept`},
		{List: "resourceTemplates", Text: `"t" is listed twice; the first one is kept`},
		{List: "prompts", Text: `"p" is listed twice; the first one is kept`},
	}, c.Warnings)
}

func TestCatalog_finds_tools(t *testing.T) {
	c := New(Catalog{Tools: []mcpvisor.Tool{tool("s", "b/c", ""), tool("s", "a", "")}})
	got, ok := c.Tool("b/c")
	require.True(t, ok)
	require.Equal(t, "s/b/c", got.Name)
	got, ok = c.ToolByAlias("mcp__s__a")
	require.True(t, ok)
	require.Equal(t, "s/a", got.Name)
	for _, name := range []string{"s/a", "A", "", "mcp__s__a"} {
		_, ok = c.Tool(name)
		require.False(t, ok, name)
	}
	_, ok = c.ToolByAlias("a")
	require.False(t, ok)
}

// A server that is not ready has no catalog.
func TestCatalog_nil_or_empty(t *testing.T) {
	for _, c := range []*Catalog{nil, {}, New(Catalog{})} {
		_, ok := c.Tool("a")
		require.False(t, ok)
		_, ok = c.ToolByAlias("mcp__s__a")
		require.False(t, ok)
	}
}

// Catalogs do not depend on the order in which a server lists. Every tool is found by its
// name and by its alias.
func TestNew_properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfDistinct(rapid.StringMatching(`[ab_./]{1,4}`), rapid.ID[string]).Draw(t, "names")
		build := func(names []string) *Catalog {
			var tools []mcpvisor.Tool
			for _, name := range names {
				tools = append(tools, tool("s", name, ""))
			}
			return New(Catalog{Tools: tools})
		}
		c := build(names)
		other := build(rapid.Permutation(names).Draw(t, "other order"))
		require.NotEqual(t, c.Version, other.Version)
		other.Version = c.Version
		require.Equal(t, c, other)
		require.Len(t, c.Tools, len(names))
		for _, name := range names {
			byName, ok := c.Tool(name)
			require.True(t, ok)
			require.Equal(t, name, byName.OriginalName)
			byAlias, ok := c.ToolByAlias(mcpvisor.Alias("s", name))
			require.True(t, ok)
			require.Equal(t, byName, byAlias)
		}
	})
}

// Scripts read the names of these members.
func TestTool_as_JSON(t *testing.T) {
	one := tool("fs", "list", "lists")
	one.Definition.InputSchema = json.RawMessage(`{"b":1, "a":2.0}`)
	text, err := json.Marshal(one)
	require.NoError(t, err)
	var members map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &members))
	require.Equal(t, `"fs/list"`, string(members["name"]))
	require.Equal(t, `"list"`, string(members["originalName"]))
	require.Equal(t, `"mcp__fs__list"`, string(members["alias"]))
	require.Equal(t, `"fs"`, string(members["server"]))
	require.Contains(t, string(members["definition"]), `"inputSchema":{"b":1,"a":2.0}`, "in the server's order and spelling")
}
