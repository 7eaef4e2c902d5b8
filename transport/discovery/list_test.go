package discovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// Few entries can be as long as many. The lists share one limit in bytes.
func TestDiscover_bounds_bytes(t *testing.T) {
	tool := func(name string, size int) string {
		return fmt.Sprintf(`{"name":"%s","description":"%s"}`, name, strings.Repeat("x", size))
	}
	const limit = 10_000
	for name, c := range map[string]struct {
		tools func(cursor string) string
		want  []string
		cut   bool
	}{
		"endless pages": {func(cursor string) string {
			name := fmt.Sprintf("t%d", len(cursor))
			return `{"tools":[` + tool(name, 3000) + `],"nextCursor":"` + cursor + `x"}`
		}, []string{"t7", "t8", "t9"}, true},
		"one page": {func(string) string {
			return `{"tools":[` + tool("a", 4000) + `,` + tool("b", 4000) + `,` + tool("c", 4000) + `,` + tool("d", 1) + `]}`
		}, []string{"a", "b"}, true},
		"waste beside the list": {func(string) string {
			return `{"waste":"` + strings.Repeat("x", limit) + `","tools":[` + tool("a", 1) + `]}`
		}, []string{"a"}, false},
		"endless waste": {func(cursor string) string {
			name := fmt.Sprintf("t%d", len(cursor))
			return `{"waste":"` + strings.Repeat("x", limit/2) + `","tools":[` + tool(name, 2000) + `],"nextCursor":"` + cursor + `x"}`
		}, []string{"t10", "t7", "t8", "t9"}, true}, // the waste is not kept, and does not count
		"a cursor": {func(cursor string) string {
			return `{"tools":[` + tool(fmt.Sprintf("t%d", len(cursor)), 1) + `],"nextCursor":"` + cursor + strings.Repeat("x", limit) + `"}`
		}, []string{"t7"}, true},
		"all there is": {func(string) string { return `{"tools":[` + tool("a", 9000) + `]}` }, []string{"a"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &fakeSession{caps: onlyTools(), reply: func(_, cursor string) (string, error) { return c.tools(cursor), nil }}
			found, err := discoverAll(t, s, mcpvisor.Limits{MaxCatalogBytes: limit, MaxPages: 20})
			require.NoError(t, err)
			require.Equal(t, c.want, toolNames(found))
			if !c.cut {
				require.Empty(t, found.Warnings)
				return
			}
			require.Len(t, found.Warnings, 1)
			require.Equal(t, mcpvisor.Warning{List: "tools",
				Text: "the lists are longer than 10000 bytes together; the rest is left out (raise Limits.MaxCatalogBytes to take more)"},
				found.Warnings[0])
		})
	}
	t.Run("all lists together", func(t *testing.T) {
		pad := strings.Repeat("x", limit*2/3)
		s := &fakeSession{caps: everything(), reply: replies(map[string]string{
			"tools/list":     `{"tools":[{"name":"a","description":"` + pad + `"}]}`,
			"resources/list": `{"resources":[{"uri":"a:b","name":"` + pad + `"}]}`,
			"prompts/list":   `{"prompts":[{"name":"short"}]}`,
		})}
		found, err := discoverAll(t, s, mcpvisor.Limits{MaxCatalogBytes: limit, MaxPages: 20})
		require.NoError(t, err)
		require.Len(t, found.Tools, 1)
		require.Empty(t, found.Resources)
		require.Len(t, found.Prompts, 1)
		require.Len(t, found.Warnings, 1)
		require.Equal(t, "resources", found.Warnings[0].List)
	})
}

// A list that no capability declares does not count as one that worked. A list of which a
// later page is missing does not count as one that failed.
func TestDiscoverLists_counts_failed_lists(t *testing.T) {
	s := &fakeSession{caps: &mcp.ServerCapabilities{Resources: &mcp.ResourceCapabilities{}}, reply: func(method, _ string) (string, error) {
		if method == "resources/list" {
			return "", rpcError(jsonrpc.CodeInternalError)
		}
		return "", rpcError(jsonrpc.CodeMethodNotFound)
	}}
	_, err := discoverAll(t, s, mcpvisor.Limits{})
	require.ErrorContains(t, err, "every list failed: resources/list")

	s = &fakeSession{caps: onlyTools(), reply: func(_, cursor string) (string, error) {
		if cursor == "2" {
			return "", rpcError(jsonrpc.CodeInternalError)
		}
		return `{"tools":[{"name":"a"}],"nextCursor":"2","ttlMs":1e300}`, nil
	}}
	c, broken, err := DiscoverLists(t.Context(), s, "srv", mcpvisor.ServerSpec{}.WithDefaults().Limits, catalog.AllLists)
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, toolNames(c))
	require.Equal(t, catalog.ListTools, broken)
	require.Equal(t, 1e9*time.Millisecond, c.TTL[catalog.ListTools])

	s = &fakeSession{caps: onlyTools(), reply: replies(map[string]string{
		"tools/list?(first)": `{"tools":[],"ttlMs":2000,"nextCursor":"2"}`, "tools/list?2": `{"tools":[],"ttlMs":1000,"nextCursor":"3"}`,
		"tools/list?3": `{"tools":[],"ttlMs":3000}`})}
	c, err = discoverAll(t, s, mcpvisor.Limits{})
	require.NoError(t, err)
	require.Equal(t, time.Second, c.TTL[catalog.ListTools], "a list is as old as its oldest page")
}

// schemaChecker is a session that refuses input schemas with a word in them, and keeps
// bytes for each tool.
type schemaChecker struct {
	*fakeSession
	kept int
	used *[]string // the tools that it was told to use
}

func (c schemaChecker) CheckInputSchema(schema json.RawMessage) (int, error) {
	if strings.Contains(string(schema), "forbidden") {
		return 0, errors.New("its schema is forbidden")
	}
	return c.kept, nil
}

func (c schemaChecker) UseTools(tools []mcpvisor.Tool, partial bool) {
	*c.used = nil
	for _, tool := range tools {
		*c.used = append(*c.used, tool.OriginalName)
	}
	if partial {
		*c.used = append(*c.used, "…")
	}
}

// A tool whose input schema the session refuses is left out.
func TestDiscover_asks_the_session_about_input_schemas(t *testing.T) {
	s := &fakeSession{caps: onlyTools(), reply: replies(map[string]string{
		"tools/list": `{"tools":[{"name":"a","inputSchema":{"title":"forbidden"}},{"name":"b"}]}`})}
	var used []string
	c, err := Discover(t.Context(), schemaChecker{s, 0, &used}, "srv", mcpvisor.ServerSpec{}.WithDefaults().Limits)
	require.NoError(t, err)
	require.Equal(t, []string{"b"}, toolNames(c))
	require.Equal(t, []string{"b"}, used, "the session keeps nothing about a tool that is left out")
	require.Equal(t, []mcpvisor.Warning{{List: "tools", Text: "entry 1 is left out: its schema is forbidden"}}, c.Warnings)
	c, err = Discover(t.Context(), s, "srv", mcpvisor.ServerSpec{}.WithDefaults().Limits)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, toolNames(c), "a session without demands")
}

// What the session keeps for the tools counts with the lists.
func TestDiscover_counts_what_the_session_keeps(t *testing.T) {
	s := &fakeSession{caps: onlyTools(), reply: replies(map[string]string{
		"tools/list": `{"tools":[` + strings.Repeat(`{"name":"a","inputSchema":{}},`, 9) + `{"name":"b","inputSchema":{}}]}`})}
	var used []string
	limits := mcpvisor.ServerSpec{}.WithDefaults().Limits
	limits.MaxCatalogBytes = 10_000
	c, err := Discover(t.Context(), schemaChecker{s, 2000, &used}, "srv", limits)
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, toolNames(c))
	require.Contains(t, c.Warnings[0].Text, "longer than 10000 bytes")
	require.Equal(t, []string{"a"}, used)
}

// The session is told when the tools are not all.
func TestDiscover_tells_the_session_of_partial_lists(t *testing.T) {
	s := &fakeSession{caps: onlyTools(), reply: func(_, cursor string) (string, error) {
		if cursor == "2" {
			return "", rpcError(jsonrpc.CodeInternalError)
		}
		return `{"tools":[{"name":"a"}],"nextCursor":"2"}`, nil
	}}
	var used []string
	_, err := Discover(t.Context(), schemaChecker{s, 0, &used}, "srv", mcpvisor.ServerSpec{}.WithDefaults().Limits)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "…"}, used)
}

var toolTexts = []string{
	`null`, `7`, `"x"`, `[]`, `{}`, `{"name":null}`, `{"name":7}`, `{"name":""}`, ` { "name" : "a" } `,
	`{"name":"a","inputSchema":{"type":"object"},"outputSchema":{"a":[1.0, 2]}}`, `{"name":"a","inputSchema":null,"outputSchema":7}`,
	`{"name":"g\u00f6\n\"","title":"t\/","description":"\ud83d\ude00 \ud83d"}`, "{\"name\":\"\xff\"}", `{"n\u0061me":"a","\u0069nputSchema":{}}`,
	`{"name":"a","annotations":{"readOnlyHint":true,"destructiveHint":false,"title":"x"}}`, `{"name":"a","annotations":7}`, `{"name":"a","annotations":null}`,
	`{"name":"a","icons":[{"src":"data:"}],"_meta":{"k":[1]}}`, `{"name":"a","icons":{}}`, `{"name":"a","_meta":[]}`,
	`{"name":"a","name":"b","description":"x","description":null,"annotations":{"title":"1"},"annotations":{"readOnlyHint":true}}`,
	`{"name":"a","description":7}`, `{"name":"a","title":{}}`, `{"name":"a","unknown":{"name":"b"}}`,
}

func TestToolDecoder_agrees_with_encoding_json(t *testing.T) {
	for _, text := range toolTexts {
		t.Run(text, func(t *testing.T) { requireSameTool(t, []byte(text)) })
	}
}

func FuzzTool(f *testing.F) {
	for _, text := range toolTexts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) || hasDuplicates(text) {
			t.Skip("a page holds valid entries only; which of two duplicates is refused may differ")
		}
		requireSameTool(t, text)
	})
}

// hasDuplicates reports whether a member of an object occurs twice.
func hasDuplicates(text []byte) bool {
	seen := map[string]bool{}
	duplicates := false
	_ = jsonscan.EachMember(text, func(key string, _ []byte) error {
		duplicates = duplicates || seen[key]
		seen[key] = true
		return nil
	})
	return duplicates
}

// requireSameTool decodes a tool in one pass and with encoding/json, and compares. Of
// duplicate members the last one counts. Schemas stay text.
func requireSameTool(t *testing.T, text []byte) {
	t.Helper()
	got := toolDecoder{}
	gotErr := got.add(text, newBounds())
	want := new(mcp.Tool)
	var members map[string]json.RawMessage
	err := json.Unmarshal(text, &members)
	for key, into := range map[string]any{"name": &want.Name, "title": &want.Title, "description": &want.Description,
		"annotations": &want.Annotations, "icons": &want.Icons, "_meta": &want.Meta} {
		if value, ok := members[key]; ok && err == nil {
			err = json.Unmarshal(value, into)
		}
	}
	for key, into := range map[string]*any{"inputSchema": &want.InputSchema, "outputSchema": &want.OutputSchema} {
		if value, ok := members[key]; ok && string(value) != "null" {
			*into = value
		}
	}
	if err != nil || want.Name == "" {
		require.Error(t, gotErr, "%q", text)
		require.Empty(t, got.named("srv"))
		return
	}
	require.NoError(t, gotErr, "%q", text)
	tools := got.named("srv")
	require.Equal(t, []mcpvisor.Tool{{Name: mcpvisor.Qualify("srv", want.Name), Server: "srv", OriginalName: want.Name,
		Alias: mcpvisor.Alias("srv", want.Name), Definition: want, Raw: tools[0].Raw}}, tools, "%q", text)
}

// The names of many tools share memory. Each is right, even where entries between them were
// left out.
func TestToolDecoder_names_many_tools(t *testing.T) {
	l := toolDecoder{}
	for i := range 500 {
		if i%7 == 3 {
			require.Error(t, l.add([]byte(`{"description":"left over","name":7}`), newBounds()))
		}
		require.NoError(t, l.add(fmt.Appendf(nil, `{"name":"tool %d%s"}`, i, strings.Repeat("x", i%90)), newBounds()))
	}
	tools := l.named("srv")
	require.Len(t, tools, 500)
	for i, tool := range tools {
		name := fmt.Sprintf("tool %d%s", i, strings.Repeat("x", i%90))
		require.Equal(t, &mcp.Tool{Name: name}, tool.Definition)
		require.Equal(t, mcpvisor.Tool{Name: "srv/" + name, Server: "srv", OriginalName: name,
			Alias: mcpvisor.Alias("srv", name), Definition: tool.Definition, Raw: tool.Raw}, tool)
	}
}

func newBounds() *bounds { return &bounds{decoded: new(int)} }
