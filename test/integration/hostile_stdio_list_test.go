//go:build linux

package integration

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest/hostile"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// warned: what was left out is told.
func warned(v *stdioRun) { require.NotEmpty(v.t, v.before.Catalog.Warnings) }

// hurriedList is for lists that never come.
func hurriedList(s *mcpvisor.ServerSpec) { s.Timeouts.List = 300 * time.Millisecond }

func narrow(s *mcpvisor.ServerSpec)   { s.Limits.MaxMessageBytes = 1 << 20 }
func fewPages(s *mcpvisor.ServerSpec) { s.Limits.MaxPages = 20 }

// offered is the tools of the server in question.
func (v *stdioRun) offered() []mcpvisor.Tool {
	return slices.DeleteFunc(v.c.Tools(), func(t mcpvisor.Tool) bool { return t.Server != hostileServer })
}

// toolless is a server whose tools are lost, and nothing else.
var toolless = stdioRow{act: idle, any: true, fate: useless, check: func(v *stdioRun) {
	offersNothing(v)
	require.NotZero(v.t, v.before.Catalog.Prompts)
}}

var (
	lacking  = stdioRow{check: warned}
	listTime = stdioRow{spec: hurriedList, start: noStart(supervisor.CauseTimeout)}
)

var stdioListRows = map[string]stdioRow{
	"list/endless":            {eras: bothEras, spec: fewPages, check: warned},
	"list/cursor-again":       everywhere(lacking),
	"list/exit":               {start: noStart(supervisor.CauseExit)},
	"list/prompts-hang":       listTime,
	"list/half-line":          listTime,
	"list/resources-refused":  lacking,
	"list/all-refused":        {eras: bothEras, start: noStart()},
	"list/cursor-empty":       lacking,
	"list/cursor-number":      lacking,
	"list/cursor-large":       {spec: fewPages, check: warned},
	"list/page-2-hangs":       listTime,
	"list/page-2-refused":     lacking,
	"list/page-2-exits":       {start: noStart(supervisor.CauseExit)},
	"list/page-2-null":        lacking,
	"list/slow-pages":         listTime,
	"list/null":               toolless,
	"list/object":             toolless,
	"list/missing":            toolless,
	"list/bare-array":         toolless,
	"list/swapped":            toolless,
	"list/odd-entries":        everywhere(lacking),
	"list/name-missing":       lacking,
	"list/name-empty":         lacking,
	"list/name-large":         harmless,
	"list/name-escapes":       harmless,
	"list/name-twice":         lacking,
	"list/name-twice-large":   lacking,
	"list/description-large":  harmless,
	"list/description-number": lacking,
	"list/schema-missing":     tolerated,
	"list/schema-null":        harmless,
	"list/schema-text":        harmless,
	"list/schema-array":       harmless,
	"list/schema-true":        harmless,
	"list/schema-deep":        harmless,
	"list/schema-too-deep":    toolless,
	"list/schema-circular":    harmless,
	"list/annotations-text":   lacking,
	"list/broad-meta":         everywhere(broadEntry(3)),
	"list/broad-icons":        broadEntry(3),
	"list/broad-resource": checked(lacking, func(v *stdioRun) {
		require.Equal(v.t, 1, v.before.Catalog.Resources, "what is too large costs itself")
	}),
	"list/broad-prompt": checked(lacking, func(v *stdioRun) {
		require.Equal(v.t, 1, v.before.Catalog.Prompts, "the entry is left out")
	}),
	"list/oversize":      {spec: narrow, check: warned},
	"list/invalid-utf-8": harmless,
	"list/uri-missing":   lacking,
	"list/changes":       tolerated,
	"list/many": {check: func(v *stdioRun) {
		warned(v)
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
			require.Equal(v.t, "other", tool.Server, "%s is still what it was", name)
		}
	}},
	"list/in-advance": {check: func(v *stdioRun) {
		require.Equal(v.t, []int{1, 1}, []int{v.before.Catalog.Resources, v.before.Catalog.Prompts})
		require.Equal(v.t, hostile.PromptName, v.c.Prompts()[0].OriginalName)
		requireUnmatched(v)
	}},
}

// broadEntry: a tool of which a member is too large is listed without it.
func broadEntry(tools int) stdioRow {
	return checked(lacking, func(v *stdioRun) {
		require.Equal(v.t, tools, v.before.Catalog.Tools)
		require.Contains(v.t, fmt.Sprint(v.before.Catalog.Warnings), "too large")
	})
}

// requireFit: what a server says of itself may be shown, and costs little where
// it is repeated.
func (v *stdioRun) requireFit() {
	for _, warning := range v.before.Catalog.Warnings {
		require.Less(v.t, len(warning.Text), 4<<10, "a warning is fit to be shown")
		require.False(v.t, strings.ContainsAny(warning.Text, "\x00\a\x1b\n\u202e"), "%q is fit to be shown", warning)
	}
	for _, tool := range v.offered() {
		require.LessOrEqual(v.t, len(tool.Alias), 64)
		require.NotEmpty(v.t, tool.Alias)
		for _, r := range tool.Alias {
			require.True(v.t, r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z', "%q", tool.Alias)
		}
	}
}
