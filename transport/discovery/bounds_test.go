package discovery

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// An entry with too long a name is left out. Text that is too long is cut. Warnings say
// both.
func TestDiscover_bounds_text(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	page := func(member string, entries ...map[string]any) string {
		raw, err := json.Marshal(map[string]any{member: entries})
		require.NoError(t, err)
		return string(raw)
	}
	texts := map[string]any{"title": long(maxTitle + 1), "description": long(maxDescription + 1)}
	entry := func(members map[string]any) map[string]any {
		for k, v := range texts {
			members[k] = v
		}
		return members
	}
	s := &fakeSession{caps: everything(), reply: replies(map[string]string{
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
	warnings := warningTexts(c)
	require.Equal(t, 4, strings.Count(warnings, "bytes long"), warnings)
	for _, want := range []string{"tools: 2 titles or descriptions were too long and are cut", "resources: 3 titles or descriptions were too long and are cut",
		"resourceTemplates: 3 titles or descriptions were too long and are cut", "prompts: 4 titles or descriptions were too long and are cut"} {
		require.Contains(t, warnings, want)
	}
	require.Less(t, len(warnings), 1000)
}

// An argument may be null.
func TestBounds_prompt_without_argument(t *testing.T) {
	require.NoError(t, new(bounds).prompt(&mcp.Prompt{Name: "p", Arguments: []*mcp.PromptArgument{nil}}))
}

// broad is an object of n small objects: 8 bytes each as text, 400 as a map.
func broad(n int) string { return `{"m":[` + strings.Repeat(`{"a":0},`, n) + `0]}` }

// An open member that is too large is left out. An entry that is too large without its open
// members is left out as a whole.
func TestDiscover_leaves_out_large_members(t *testing.T) {
	many := broad(10_000)
	s := &fakeSession{caps: everything(), reply: replies(map[string]string{
		"tools/list": `{"tools":[{"name":"a","_meta":` + many + `},{"name":"b","icons":[{"src":"x"}` + strings.Repeat(`,{}`, 10_000) + `]},
			{"name":"c","annotations":{"title":"t","x":` + many + `}},{"name":"d","_meta":{"k":"v"},"icons":[{"src":"x"}]}]}`,
		"resources/list":           `{"resources":[{"uri":"x:a","_META":` + many + `},{"uri":"x:b","name":"n","other":` + many + `},{"uri":"x:c","_meta":{"k":"v"}}]}`,
		"resources/templates/list": `{"resourceTemplates":[{"uriTemplate":"x:a","icons":[` + many + `]}]}`,
		"prompts/list":             `{"prompts":[{"name":"a","_meta":` + many + `},{"name":"b","arguments":[{"name":"x"}` + strings.Repeat(`,{}`, 10_000) + `]}]}`,
	})}
	c, err := discoverAll(t, s, mcpvisor.Limits{})
	require.NoError(t, err)
	require.Len(t, c.Tools, 4)
	for _, tool := range c.Tools[:3] {
		require.Nil(t, tool.Definition.Meta)
		require.Nil(t, tool.Definition.Icons)
		require.Nil(t, tool.Definition.Annotations)
	}
	require.Equal(t, "v", c.Tools[3].Definition.Meta["k"])
	require.Len(t, c.Tools[3].Definition.Icons, 1)
	require.Len(t, c.Resources, 2)
	require.Nil(t, c.Resources[0].Definition.Meta)
	require.Equal(t, "v", c.Resources[1].Definition.Meta["k"])
	require.Len(t, c.Templates, 1)
	require.Empty(t, c.Templates[0].Definition.Icons)
	require.Len(t, c.Prompts, 1)
	texts := warningTexts(c)
	require.Contains(t, texts, "3 members of entries were too large and are left out")
	require.Contains(t, texts, "resources: entry 2 is left out: it holds more than 10000 values")
	require.Contains(t, texts, "prompts: entry 2 is left out: it holds more than 10000 values")
}

// What _meta takes once decoded counts towards Limits.MaxCatalogBytes.
func TestDiscover_counts_decoded_members(t *testing.T) {
	var b strings.Builder
	for i := range 1000 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"name":"tool-` + strings.Repeat("x", i%7) + strings.Repeat("y", i/7) + `","_meta":` + broad(100) + `}`)
	}
	s := &fakeSession{caps: onlyTools(), reply: replies(map[string]string{"tools/list": `{"tools":[` + b.String() + `]}`})}
	c, err := discoverAll(t, s, mcpvisor.Limits{MaxCatalogBytes: 4 << 20})
	require.NoError(t, err)
	require.Less(t, len(c.Tools), 150)
	require.Greater(t, len(c.Tools), 30)
	require.Contains(t, warningTexts(c), "Limits.MaxCatalogBytes")
}
