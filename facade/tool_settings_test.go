package facade_test

import (
	"context"
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// search is a server whose tool "search" answers with its arguments, and "find" as well.
func search() *mcpvisor.InMemory {
	schema := `{"type":"object","additionalProperties":false,"properties":{"q":{"type":"string"},"region":{"type":"string"},"limit":{"type":"integer"}},"required":["q","region","limit"]}`
	return mcptest.InMemory(mcptest.Script{Tools: []mcptest.ToolDef{
		{Name: "search", Description: "the server's text", InputSchema: json.RawMessage(schema), OutputSchema: json.RawMessage(`{"type":"object"}`)}, {Name: "find"}, {Name: "other"}}})
}

var searchSettings = map[string]mcpvisor.ToolSetting{"search": {Name: "find", Description: "looks things up",
	Fixed:    map[string]json.RawMessage{"region": json.RawMessage(`"eu"`), "undeclared": json.RawMessage(`{"a":[1]}`)},
	Defaults: map[string]json.RawMessage{"limit": json.RawMessage(`10`)}}, "absent": {Description: "x"}}

func answerOf(t *testing.T, result *mcp.CallToolResult, err error) string {
	t.Helper()
	require.NoError(t, err)
	return result.Content[0].(*mcp.TextContent).Text
}

// A tool is listed and called as its setting says, by callers and in every list.
func TestToolSettings(t *testing.T) {
	onEveryTransport(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c := newClient(t, facade.WithValidation())
		spec.ToolSettings = map[string]mcpvisor.ToolSetting{"echo": {Name: "repeat", Defaults: map[string]json.RawMessage{"text": json.RawMessage(`"preset"`)}}}
		require.NoError(t, c.Register(t.Context(), spec))
		result, err := c.CallTool(t.Context(), "s/repeat", nil)
		require.Contains(t, answerOf(t, result, err), "preset")
		result, err = c.CallTool(t.Context(), "mcp__s__repeat", map[string]any{"text": "given"})
		require.Contains(t, answerOf(t, result, err), "given")
		_, err = c.CallTool(t.Context(), "s/echo", map[string]any{"text": "x"})
		require.ErrorIs(t, err, mcpvisor.ErrUnknownTool)
	})
}

func TestToolSettings_arguments(t *testing.T) {
	c := newClient(t, facade.WithValidation())
	spec := mcpvisor.ServerSpec{Name: "s", InMemory: search(), ToolSettings: searchSettings}
	require.NoError(t, c.Register(t.Context(), spec))

	tools := c.Tools()
	require.Len(t, tools, 2)
	require.Equal(t, []string{"find", "other"}, []string{tools[0].OriginalName, tools[1].OriginalName}, "in the order of the names")
	tool := tools[0]
	require.Equal(t, []string{"s/find", "mcp__s__find", "find", "looks things up"}, []string{tool.Name, tool.Alias, tool.Definition.Name, tool.Definition.Description})
	const want = `{"type":"object","additionalProperties":false,"properties":{"q":{"type":"string"},"limit":{"default":10,"type":"integer"}},"required":["q"]}`
	require.Equal(t, want, string(tool.Definition.InputSchema.(json.RawMessage)))
	require.JSONEq(t, `{"name":"find","description":"looks things up","inputSchema":`+want+`,"outputSchema":{"type":"object"}}`, string(tool.Raw))
	status, _ := c.ServerStatus("s")
	require.Equal(t, []mcpvisor.Warning{
		{List: "tools", Text: `"find" is left out, because the configuration calls "search" so; choose another name there`},
		{List: "tools", Text: `the argument "undeclared", which the configuration sets for tool "search", is not in the schema of the tool`},
		{List: "tools", Text: `the configuration has a setting for tool "absent", which the server does not have`},
	}, status.Catalog.Warnings)

	result, err := c.CallTool(t.Context(), "s/find", map[string]any{"q": "go"})
	require.JSONEq(t, `{"q":"go","limit":10,"region":"eu","undeclared":{"a":[1]}}`, answerOf(t, result, err))
	result, err = c.CallTool(t.Context(), "s/find", json.RawMessage(`{"q":"go","limit":3}`))
	require.JSONEq(t, `{"q":"go","limit":3,"region":"eu","undeclared":{"a":[1]}}`, answerOf(t, result, err))
	for _, args := range []string{`{"q":"go","region":"us"}`, `{"q":"go","Region":"us"}`, `{"q":"go","\u0072egion":"us"}`} {
		for _, opts := range [][]facade.CallOption{nil, {facade.WithoutValidation()}} {
			_, err = c.CallTool(t.Context(), "s/find", json.RawMessage(args), opts...)
			require.ErrorIs(t, err, mcpvisor.ErrInvalid)
			requireOutcome(t, err, mcpvisor.OutcomeNotSent)
		}
		require.ErrorContains(t, err, "is fixed by the configuration of the server; leave it out")
	}
	restart(t, c)
	require.Equal(t, tools, c.Tools(), "the same after a restart")

	// A change of a setting is a change of the server; the same settings are none.
	other := spec.Clone()
	require.True(t, spec.Equal(other))
	other.ToolSettings["search"].Fixed["region"][1] = 'E'
	require.False(t, spec.Equal(other))
	require.Equal(t, `"eu"`, string(searchSettings["search"].Fixed["region"]), "a clone shares nothing")
}

// A server that is down does not get a call of a name that its tool no longer has.
func TestToolSettings_while_the_tools_are_unknown(t *testing.T) {
	c := newClient(t)
	gate := make(chan struct{})
	inner := search()
	late := &mcpvisor.InMemory{Serve: func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, log io.Writer) error {
		<-gate
		return inner.Serve(ctx, in, out, log)
	}}
	spec := mcpvisor.ServerSpec{Name: "s", InMemory: late, StartSupervised: true, Policy: supervisor.Retry(3, time.Millisecond), ToolSettings: searchSettings}
	require.NoError(t, c.Register(t.Context(), spec))
	texts := make(chan string)
	for _, tool := range []string{"s/search", "s/find"} {
		go func() {
			result, err := c.CallTool(t.Context(), tool, map[string]any{"q": "go"}, facade.WithWaitReady())
			if err != nil {
				texts <- err.Error()
				return
			}
			texts <- result.Content[0].(*mcp.TextContent).Text
		}()
	}
	close(gate)
	both := (<-texts) + (<-texts)
	require.Contains(t, both, `"region":"eu"`)
	require.Contains(t, both, "unknown tool")
}

// The lists of a server that sleeps are kept as they are offered.
func TestToolSettings_of_kept_lists(t *testing.T) {
	dir := mcpvisor.CatalogDir(t.TempDir())
	spec := mcpvisor.ServerSpec{Name: "s", InMemory: search(), Start: mcpvisor.StartLazy, ToolSettings: searchSettings, Tools: mcpvisor.ToolFilter{Allow: []string{"find"}}}
	first, err := facade.New(facade.WithCatalogStore(dir))
	require.NoError(t, err)
	require.NoError(t, first.Register(t.Context(), spec))
	require.NoError(t, first.WaitReady(t.Context()))
	require.Len(t, first.Tools(), 1)
	want := first.Tools()
	require.NoError(t, first.Close(t.Context()))

	c := newClient(t, facade.WithCatalogStore(dir))
	require.NoError(t, c.Register(t.Context(), spec))
	require.Equal(t, want[0].Definition, c.Tools()[0].Definition)
	status, _ := c.ServerStatus("s")
	require.Equal(t, supervisor.StateAsleep, status.State)
	result, err := c.CallTool(t.Context(), "s/find", map[string]any{"q": "go"})
	require.Contains(t, answerOf(t, result, err), `"region":"eu"`)
}

// The timeout of a tool ends its calls, unless the call has one.
func TestToolSettings_timeout(t *testing.T) {
	c := newClient(t)
	silent := mcptest.InMemory(mcptest.Script{Tools: []mcptest.ToolDef{{Name: "a"}}, Faults: []mcptest.Fault{{At: mcptest.StageCall, Tool: "a", Do: mcptest.ActionHang}}})
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: silent, ToolSettings: map[string]mcpvisor.ToolSetting{"a": {Name: "b", Timeout: 20 * time.Millisecond}}}))
	began := time.Now()
	_, err := c.CallTool(t.Context(), "s/b", nil)
	require.ErrorIs(t, err, mcpvisor.ErrTimeout)
	require.Less(t, time.Since(began), 30*time.Second, "Timeouts.Call is a minute")
}
