package catalog

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/retention"
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

// manyTools returns a catalog of n tools whose names begin with prefix.
func manyTools(prefix string, n int, description string) *Catalog {
	tools := make([]mcpvisor.Tool, n)
	for i := range tools {
		name := fmt.Sprintf("%s%05d", prefix, i)
		tools[i] = mcpvisor.Tool{Name: "s/" + name, Server: "s", OriginalName: name, Raw: json.RawMessage(`{"description":"` + description + `"}`)}
	}
	return New(Catalog{Tools: tools})
}

func TestDelta(t *testing.T) {
	t.Run("names_the_first_and_counts_the_rest", func(t *testing.T) {
		_, change := manyTools("a", 10_000, "").Refreshed(manyTools("b", 9_000, ""), ListTools)
		d := change.Tools
		require.Len(t, d.Added, retention.DeltaNames)
		require.Len(t, d.Removed, retention.DeltaNames)
		require.Equal(t, 9_000-retention.DeltaNames, d.AddedMore)
		require.Equal(t, 10_000-retention.DeltaNames, d.RemovedMore)
		require.Zero(t, d.ChangedMore)
		require.Equal(t, "s/b00000", d.Added[0])
		require.Equal(t, "tools +9000 −10000 ~0", change.String())

		_, change = manyTools("a", 10_000, "x").Refreshed(manyTools("a", 10_000, "y"), ListTools)
		require.Len(t, change.Tools.Changed, retention.DeltaNames)
		require.Equal(t, "tools +0 −0 ~10000", change.String())
		require.False(t, change.IsZero())
	})
	t.Run("holds_few_bytes_of_long_names", func(t *testing.T) {
		_, change := manyTools("", 0, "").Refreshed(manyTools(strings.Repeat("x", 1<<20), 3, ""), ListTools)
		require.Empty(t, change.Tools.Added)
		require.Equal(t, 3, change.Tools.AddedMore)
		require.False(t, change.IsZero())
	})
	t.Run("shares_no_memory_with_the_catalog", func(t *testing.T) {
		fresh := manyTools("a", 1, "")
		_, change := manyTools("", 0, "").Refreshed(fresh, ListTools)
		require.Equal(t, fresh.Tools[0].Name, change.Tools.Added[0])
		require.NotSame(t, unsafe.StringData(fresh.Tools[0].Name), unsafe.StringData(change.Tools.Added[0]))
	})
}

// Every status holds all warnings, so a server must not have 10,000 of them: beyond the first
// ones they are counted.
func TestWarnings_are_counted(t *testing.T) {
	var tools []mcpvisor.Tool
	var prompts []mcpvisor.Prompt
	for i := range 10_000 {
		tools = append(tools, tool("s", "same", ""))
		prompts = append(prompts, mcpvisor.Prompt{OriginalName: fmt.Sprint(i / 2)})
	}
	c := New(Catalog{Tools: tools, Prompts: prompts})
	require.Len(t, c.Tools, 1)
	require.Len(t, c.Prompts, 5000)
	require.Len(t, c.Warnings, 2*(WarningExamples+1))
	require.Equal(t, mcpvisor.Warning{List: NameTools, Text: `"same" is listed twice; the first one is kept`}, c.Warnings[0])
	require.Equal(t, mcpvisor.Warning{List: NameTools, Text: "9989 more are listed twice; the first ones are kept"}, c.Warnings[WarningExamples])
	require.Equal(t, mcpvisor.Warning{List: NamePrompts, Text: "4990 more are listed twice; the first ones are kept"}, c.Warnings[2*WarningExamples+1])

	// Warnings about a list that is read again are replaced.
	next, _ := c.Refreshed(New(Catalog{Tools: []mcpvisor.Tool{tool("s", "same", "")}}), ListTools)
	require.Len(t, next.Warnings, WarningExamples+1)

	next, _ = c.Refreshed(New(Catalog{Tools: tools[:WarningExamples+2]}), ListTools)
	require.Equal(t, mcpvisor.Warning{List: NameTools, Text: "1 more is listed twice; the first one is kept"}, next.Warnings[len(next.Warnings)-1])

	filter := mcpvisor.ToolFilter{}
	for i := range 1000 {
		filter.Deny = append(filter.Deny, fmt.Sprintf("nonesuch%d", i))
	}
	warnings := New(Catalog{Tools: tools[:1]}).Offered(filter).Warnings
	require.Len(t, warnings, WarningExamples+1)
	require.Equal(t, mcpvisor.Warning{List: NameTools, Text: "990 more tool patterns match no tool of this server"}, warnings[WarningExamples])
}

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
