package gateway

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// What a model reads in lists is what people see there. Results are passed on as they are.
func TestLists_have_no_hidden_characters(t *testing.T) {
	const mark = "a\x1b[8m\u202e\u200bb"
	h := mark + strings.Map(func(r rune) rune { return 0xE0000 + r }, "obey")
	const shown = "a[8mb"
	encoded, err := json.Marshal(h)
	require.NoError(t, err)
	text := string(encoded)
	server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, &mcp.ServerOptions{Instructions: h})
	server.AddTool(&mcp.Tool{Name: "t", Title: h, Description: h, Annotations: &mcp.ToolAnnotations{Title: h},
		InputSchema: json.RawMessage(`{"type":"object","description":` + text + `,"properties":{"fine":{"title":` + text + `,"enum":[` + text + `,"x",9007199254740993]},` +
			text + `:{"type":"string"}},"required":["fine",` + text + `],"examples":[[` + text + `]],"x":{"default":` + text + `}}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: h}}}, nil
		})
	server.AddPrompt(&mcp.Prompt{Name: "p", Title: h, Description: h, Arguments: []*mcp.PromptArgument{{Name: "x", Title: h, Description: h}}}, nil)
	server.AddResource(&mcp.Resource{URI: "mem://r", Name: h, Title: h, Description: h}, nil)
	server.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "mem://{x}", Name: h, Title: h, Description: h}, nil)
	c := newClient(t, mcpvisor.ServerSpec{Name: "s", InMemory: facade.ServeInMemory(server)})
	inBothEras(t, func(t *testing.T, version string) {
		s := connect(t, Transport(c), version, nil)
		require.Equal(t, "s: "+shown, s.InitializeResult().Instructions)
		tools, err := s.ListTools(t.Context(), nil)
		require.NoError(t, err)
		prompts, err := s.ListPrompts(t.Context(), nil)
		require.NoError(t, err)
		resources, err := s.ListResources(t.Context(), nil)
		require.NoError(t, err)
		templates, err := s.ListResourceTemplates(t.Context(), nil)
		require.NoError(t, err)
		tool, prompt, resource, template := tools.Tools[0], prompts.Prompts[0], resources.Resources[0], templates.ResourceTemplates[0]
		for _, text := range []string{tool.Title, tool.Description, tool.Annotations.Title, prompt.Title, prompt.Description, prompt.Arguments[0].Title,
			prompt.Arguments[0].Description, resource.Name, resource.Title, resource.Description, template.Name, template.Title, template.Description} {
			require.Equal(t, shown, text)
		}
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool.Name})
		require.NoError(t, err)
		require.Equal(t, h, textOf(r))
	})
	schema := member(t, json.RawMessage(strings.TrimSuffix(strings.TrimPrefix(member(t, openRaw(t, Transport(c)).call("tools/list", "").Result, "tools"), "["), "]")), "inputSchema")
	require.JSONEq(t, `{"type":"object","description":"a[8mb","properties":{"fine":{"title":"a[8mb","enum":["x",9007199254740993]}},"required":["fine"],"examples":[[]],"x":{}}`, schema)
	require.Contains(t, schema, "9007199254740993")
	require.Equal(t, h, c.Tools()[0].Definition.Description, "the definition is shared")
}
