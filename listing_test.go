package mcpvisor

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

func TestTool_TokenEstimate(t *testing.T) {
	schema := `{"type":"object"}`
	definition := &mcp.Tool{Description: strings.Repeat("d", 40), InputSchema: json.RawMessage(schema), OutputSchema: json.RawMessage(`{"ignored":true}`)}
	tool := Tool{Alias: "mcp__s__t", Definition: definition}
	require.Equal(t, (9+40+len(schema)+3)/4, tool.TokenEstimate())
	definition.InputSchema = map[string]any{"type": "object"}
	require.Equal(t, (9+40+len(schema)+3)/4, tool.TokenEstimate(), "a schema that is no text")
	require.Equal(t, 3, Tool{Alias: "mcp__s__t"}.TokenEstimate())
}
