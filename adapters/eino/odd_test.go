package eino_test

import (
	"context"
	"encoding/json"
	"io"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/adapters/eino"
	"github.com/mcpvisor/mcpvisor/facade"
)

// A tool with an odd schema does not take the tools of all servers from an agent, and keeps
// the names of its parameters.
func TestTools_odd_schemas(t *testing.T) {
	for _, property := range []string{
		`{"type":"string","maxLength":1e20}`,
		`{"type":"string","contentSchema":5}`,
		`{"type":"string","Enum":7}`,
		`{"type":"string","AllOf":7}`,
		`{"type":"array","items":{"type":"string"},"Required":true}`,
	} {
		c := oddServer(t, `{"type":"object","properties":{"a":`+property+`}}`)
		_, err := newAgent(t.Context(), c, &scriptedModel{})
		require.NoError(t, err, property)
		info, err := eino.Tools(c)[0].Info(t.Context())
		require.NoError(t, err, property)
		s, err := info.ToJSONSchema()
		require.NoError(t, err, property)
		_, has := s.Properties.Get("a")
		require.True(t, has, property)
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
