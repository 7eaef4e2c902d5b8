package catalog

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// Every status holds all warnings, so a server must not have 10,000 of them.
func TestWarningsAreCountedBeyondTheFirst(t *testing.T) {
	var tools []mcpvisor.Tool
	var prompts []mcpvisor.Prompt
	for i := range 10_000 {
		tools = append(tools, tool("s", "same", ""))
		prompts = append(prompts, mcpvisor.Prompt{OriginalName: fmt.Sprint(i / 2)})
	}
	c := NewCatalog(tools, nil, nil, prompts, nil)
	require.Len(t, c.Tools, 1)
	require.Len(t, c.Prompts, 5000)
	require.Len(t, c.Warnings, 2*(WarningExamples+1))
	require.Equal(t, `tool "same" is listed twice; the first one is kept`, c.Warnings[0])
	require.Equal(t, `tool names: 9989 more are listed twice; the first ones are kept`, c.Warnings[WarningExamples])
	require.Equal(t, `prompt names: 4990 more are listed twice; the first ones are kept`, c.Warnings[2*WarningExamples+1])

	// Those of a list that is read again are replaced.
	next, _ := c.Refreshed(NewCatalog([]mcpvisor.Tool{tool("s", "same", "")}, nil, nil, nil, nil), ListTools)
	require.Len(t, next.Warnings, WarningExamples+1)

	filter := mcpvisor.ToolFilter{}
	for i := range 1000 {
		filter.Deny = append(filter.Deny, fmt.Sprintf("nonesuch%d", i))
	}
	warnings := NewCatalog(tools[:1], nil, nil, nil, nil).Offered(filter).Warnings
	require.Len(t, warnings, WarningExamples+1)
	require.Equal(t, "tool patterns: 990 more match no tool of this server", warnings[WarningExamples])
}
