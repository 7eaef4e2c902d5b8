package catalog

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

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
