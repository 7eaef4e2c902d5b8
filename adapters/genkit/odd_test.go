package genkit_test

import (
	"context"
	"encoding/json"
	"io"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/adapters/genkit"
	"github.com/mcpvisor/mcpvisor/facade"
)

// Genkit refuses no arguments that a tool takes because its validator reads the schema in
// another way, or cannot read it.
func TestTools_odd_schemas(t *testing.T) {
	for _, odd := range [][2]string{
		{`{"type":"string","pattern":"^(?!-)[a-z]+$"}`, `"ok"`},
		{`{"type":"object","patternProperties":{"^(?!-)x":{"type":"string"}},"additionalProperties":{"type":"number"}}`, `{"x":"s"}`},
		{`{"type":"string","maxLength":1e20}`, `"ok"`},
		{`{"type":"string","enum":[]}`, `"ok"`},
		{`{"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"number"}}`, `["x",1]`},
		{`{"type":"array","contains":{"type":"string"},"minContains":0}`, `[1]`},
		{`{"type":"string","extends":5,"dependencies":5,"$ref":5,"id":5,"definitions":5}`, `"ok"`},
		{`{"type":"array","additionalItems":5,"divisibleBy":"x","disallow":5}`, `[]`},
	} {
		var a any
		require.NoError(t, json.Unmarshal([]byte(odd[1]), &a))
		c := oddServer(t, `{"type":"object","properties":{"a":`+odd[0]+`}}`)
		out, err := genkit.Tools(c)[0].RunRaw(t.Context(), map[string]any{"a": a})
		require.NoError(t, err, odd[0])
		require.Equal(t, "ran", out, odd[0])
	}
}

// oddServer is a server with one tool, which has this input schema.
func oddServer(t *testing.T, input string) *facade.Client {
	t.Helper()
	serve := func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, _ io.Writer) error {
		s := mcp.NewServer(&mcp.Implementation{Name: "odd", Version: "1"}, nil)
		s.AddTool(&mcp.Tool{Name: "tool", InputSchema: json.RawMessage(input)},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "ran"}}}, nil
			})
		return s.Run(ctx, &mcp.IOTransport{Reader: in, Writer: out})
	}
	c, err := facade.New()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "odd", InMemory: &mcpvisor.InMemory{Serve: serve}}))
	return c
}
