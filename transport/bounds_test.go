package transport

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// TestDiscoverLongNames: what has too long a name is left out, what is told
// too much about is cut, and both are said.
func TestDiscoverLongNames(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	page := func(member string, entries ...map[string]any) string {
		raw, err := json.Marshal(map[string]any{member: entries})
		require.NoError(t, err)
		return string(raw)
	}
	told := map[string]any{"title": long(maxTitle + 1), "description": long(maxDescription + 1)}
	entry := func(members map[string]any) map[string]any {
		for k, v := range told {
			members[k] = v
		}
		return members
	}
	s := &lister{caps: everything(), reply: replies(map[string]string{
		"tools/list": page("tools", entry(map[string]any{"name": long(maxName)}), map[string]any{"name": long(maxName + 1)}),
		"resources/list": page("resources", entry(map[string]any{"uri": "x:" + long(maxURI-2), "name": long(maxName + 1)}),
			map[string]any{"uri": "x:" + long(maxURI-1), "name": "n"}),
		"resources/templates/list": page("resourceTemplates", entry(map[string]any{"uriTemplate": "x:" + long(maxURI-2), "name": long(maxName + 1)}),
			map[string]any{"uriTemplate": "x:" + long(maxURI-1), "name": "n"}),
		"prompts/list": page("prompts", entry(map[string]any{"name": long(maxName), "arguments": []any{entry(map[string]any{"name": "a"})}}),
			map[string]any{"name": long(maxName + 1)}),
	})}
	c, err := discoverAll(t, s, mcpvisor.Limits{})
	require.NoError(t, err)
	require.Len(t, c.Tools, 1)
	require.Len(t, c.Resources, 1)
	require.Len(t, c.Templates, 1)
	require.Len(t, c.Prompts, 1)
	for _, text := range []string{c.Tools[0].Definition.Title, c.Resources[0].Definition.Title, c.Templates[0].Definition.Title,
		c.Prompts[0].Definition.Title, c.Prompts[0].Definition.Arguments[0].Title} {
		require.Len(t, text, maxTitle)
	}
	for _, text := range []string{c.Tools[0].Definition.Description, c.Resources[0].Definition.Description,
		c.Templates[0].Definition.Description, c.Prompts[0].Definition.Description, c.Prompts[0].Definition.Arguments[0].Description} {
		require.LessOrEqual(t, len(text), maxDescription)
		require.Contains(t, text, "(cut)")
	}
	require.Len(t, c.Resources[0].Definition.Name, maxName)
	warnings := strings.Join(c.Warnings, "\n")
	require.Equal(t, 4, strings.Count(warnings, "bytes long"), warnings)
	require.Contains(t, warnings, "12 titles or descriptions were too long")
	require.Less(t, len(warnings), 1000)
}

// An argument may be missing: it has no text to bound.
func TestBoundsOfNothing(t *testing.T) {
	require.NoError(t, new(bounds).prompt(&mcp.Prompt{Name: "p", Arguments: []*mcp.PromptArgument{nil}}))
}
