//go:build linux

package integration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway"
	"github.com/mcpvisor/mcpvisor/schema"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/hostile"
)

// requireWarning requires that the catalog has a warning about what was left out.
func requireWarning(v *stdioRun) { require.NotEmpty(v.t, v.before.Catalog.Warnings) }

// shortListTimeout is for lists that never come.
func shortListTimeout(s *mcpvisor.ServerSpec) { s.Timeouts.List = 300 * time.Millisecond }

func smallMessages(s *mcpvisor.ServerSpec) { s.Limits.MaxMessageBytes = 1 << 20 }
func fewPages(s *mcpvisor.ServerSpec)      { s.Limits.MaxPages = 20 }

// tools returns the tools of the hostile server.
func (v *stdioRun) tools() []mcpvisor.Tool {
	return slices.DeleteFunc(v.c.Tools(), func(t mcpvisor.Tool) bool { return t.Server != hostileServer })
}

// toolless is a row in which the tools are lost but the other lists are not.
var toolless = stdioRow{act: doNothing, anyResult: true, fate: unusable, check: func(v *stdioRun) {
	requireNoTools(v)
	require.NotZero(v.t, v.before.Catalog.Prompts)
}}

var (
	listsWithWarning = stdioRow{check: requireWarning}
	listTimesOut     = stdioRow{spec: shortListTimeout, start: startFails(supervisor.CauseTimeout)}
)

// hostileSchema is a row in which the client cannot compare arguments with a schema: it says
// so, and calls the tool in little memory.
var hostileSchema = stdioRow{memory: 96 << 20,
	act: func(v *stdioRun) (*mcp.CallToolResult, error) {
		return v.callBadTool(map[string]any{"text": strings.Repeat("x", 1000)})
	},
	anyResult: true,
	check: func(v *stdioRun) {
		st, _ := v.c.ServerStatus(hostileServer)
		require.Contains(v.t, fmt.Sprint(st.Catalog.Warnings), `"bad" are not validated`)
	}}

var stdioListRows = map[string]stdioRow{
	"list/endless":               {eras: bothEras, spec: fewPages, check: requireWarning},
	"list/cursor-again":          inBothEras(listsWithWarning),
	"list/exit":                  {start: startFails(supervisor.CauseExit)},
	"list/prompts-hang":          listTimesOut,
	"list/half-line":             listTimesOut,
	"list/resources-refused":     listsWithWarning,
	"list/all-refused":           {eras: bothEras, start: startFails()},
	"list/cursor-empty":          listsWithWarning,
	"list/cursor-number":         listsWithWarning,
	"list/cursor-large":          {spec: fewPages, check: requireWarning},
	"list/page-2-hangs":          listTimesOut,
	"list/page-2-refused":        listsWithWarning,
	"list/page-2-exits":          {start: startFails(supervisor.CauseExit)},
	"list/page-2-null":           listsWithWarning,
	"list/slow-pages":            listTimesOut,
	"list/null":                  toolless,
	"list/object":                toolless,
	"list/missing":               toolless,
	"list/bare-array":            toolless,
	"list/swapped":               toolless,
	"list/odd-entries":           inBothEras(listsWithWarning),
	"list/name-missing":          listsWithWarning,
	"list/name-empty":            listsWithWarning,
	"list/name-large":            harmless,
	"list/name-escapes":          harmless,
	"list/name-twice":            listsWithWarning,
	"list/name-twice-large":      listsWithWarning,
	"list/description-large":     harmless,
	"list/description-number":    listsWithWarning,
	"list/schema-missing":        tolerated,
	"list/schema-null":           harmless,
	"list/schema-text":           harmless,
	"list/schema-array":          harmless,
	"list/schema-true":           harmless,
	"list/schema-deep":           harmless,
	"list/schema-too-deep":       toolless,
	"list/schema-circular":       harmless,
	"list/schema-names":          hostileSchema,
	"list/schema-large-patterns": hostileSchema,
	"list/schema-many-patterns":  hostileSchema,
	"list/schema-broad":          hostileSchema,
	"list/annotations-text":      listsWithWarning,
	"list/broad-meta":            inBothEras(trimmedEntry(3)),
	"list/broad-icons":           trimmedEntry(3),
	"list/broad-resource": checked(listsWithWarning, func(v *stdioRun) {
		require.Equal(v.t, 1, v.before.Catalog.Resources, "the entry that is too large is left out")
	}),
	"list/broad-prompt": checked(listsWithWarning, func(v *stdioRun) {
		require.Equal(v.t, 1, v.before.Catalog.Prompts, "the entry is left out")
	}),
	"list/oversize":      {spec: smallMessages, check: requireWarning},
	"list/invalid-utf-8": harmless,
	"list/uri-missing":   listsWithWarning,
	"list/changes":       tolerated,
	"list/many": {check: func(v *stdioRun) {
		requireWarning(v)
		require.Equal(v.t, 10_000, v.before.Catalog.Tools, "no more than Limits.MaxItems")
	}},
	"list/name-slash": {check: func(v *stdioRun) {
		res, err := v.c.CallTool(v.within(), hostileServer+"/a/b//c/", map[string]any{"text": "found"})
		require.NoError(v.t, err)
		require.Equal(v.t, "found", textOf(res))
	}},
	"list/name-of-another": {check: func(v *stdioRun) {
		for _, name := range []string{"other/echo", "mcp__other__echo"} {
			tool, ok := v.c.Tool(name)
			require.True(v.t, ok)
			require.Equal(v.t, "other", tool.Server, "%s still belongs to the other server", name)
		}
	}},
	"list/hidden-characters": {act: doNothing, anyResult: true, check: func(v *stdioRun) {
		for _, tool := range v.tools() {
			requireVisible(v.t, schema.Description(tool))
			for _, format := range []schema.Format{schema.OpenAI, schema.Anthropic, schema.Gemini, schema.Ollama} {
				function, _ := format(tool)
				requireVisible(v.t, function)
			}
		}
		session, err := gateway.Transport(v.c).Connect(v.within())
		require.NoError(v.t, err)
		for i, method := range []string{"initialize", "tools/list", "resources/list", "prompts/list"} {
			id, err := jsonrpc.MakeID(float64(i))
			require.NoError(v.t, err)
			require.NoError(v.t, session.Write(v.within(), &jsonrpc.Request{ID: id, Method: method}))
			answer, err := session.Read(v.within())
			require.NoError(v.t, err)
			result := answer.(*jsonrpc.Response).Result
			require.Contains(v.t, string(result), "Reads a file.", method)
			requireVisible(v.t, result)
		}
		require.NoError(v.t, session.Close())
	}},
	"list/changed-by-crash": {end: crashes, fate: replaced, check: func(v *stdioRun) {
		events, _ := v.c.History().Events(0)
		ready := slices.DeleteFunc(events, func(e mcpvisor.Event) bool { return e.Kind != mcpvisor.EventReady || e.Server != hostileServer })
		require.Len(v.t, ready, 2)
		require.Nil(v.t, ready[0].Change)
		require.Equal(v.t, &mcpvisor.Change{
			Tools:        mcpvisor.Delta{Added: []string{"hostile/upload"}, Changed: []string{"hostile/bad"}},
			Resources:    mcpvisor.Delta{Added: []string{"hostile://other"}, Removed: []string{hostile.ResourceURI}},
			Instructions: true,
		}, ready[1].Change)
	}},
	"list/in-advance": {check: func(v *stdioRun) {
		require.Equal(v.t, []int{1, 1}, []int{v.before.Catalog.Resources, v.before.Catalog.Prompts})
		require.Equal(v.t, hostile.PromptName, v.c.Prompts()[0].OriginalName)
		requireUnmatched(v)
	}},
}

// trimmedEntry is a row in which a tool is listed without one of its members, which is
// too large.
func trimmedEntry(tools int) stdioRow {
	return checked(listsWithWarning, func(v *stdioRun) {
		require.Equal(v.t, tools, v.before.Catalog.Tools)
		require.Contains(v.t, fmt.Sprint(v.before.Catalog.Warnings), "too large")
	})
}

// requirePresentable requires that texts of the server can be shown: short, and without
// control characters.
func (v *stdioRun) requirePresentable() {
	for _, warning := range v.before.Catalog.Warnings {
		require.Less(v.t, len(warning.Text), 4<<10, "a warning is short")
		require.False(v.t, strings.ContainsAny(warning.Text, "\x00\a\x1b\n\u202e"), "%q has no control characters", warning)
	}
	for _, tool := range v.tools() {
		require.LessOrEqual(v.t, len(tool.Alias), 64)
		require.NotEmpty(v.t, tool.Alias)
		for _, r := range tool.Alias {
			require.True(v.t, r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z', "%q", tool.Alias)
		}
	}
}

// requireVisible requires that people see all of what a model gets, as JSON.
func requireVisible(t *testing.T, given any) {
	t.Helper()
	text, err := json.Marshal(given)
	require.NoError(t, err)
	require.False(t, strings.ContainsFunc(string(text), func(r rune) bool { return !unicode.IsPrint(r) }), "%q", text)
	require.NotContains(t, string(text), `\u00`)
}
