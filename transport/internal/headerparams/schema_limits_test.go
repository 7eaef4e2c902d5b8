package headerparams

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Marks in headers are not looked for in a schema that holds too much.
func TestCheck_schemaTooLarge(t *testing.T) {
	schema := `{"type":"object","properties":{"x":{"type":"string","x-mcp-header":"X"}` + strings.Repeat(`,"y":{}`, 10_000) + `}}`
	require.ErrorContains(t, Check([]byte(schema)), "more than 10000 values")
	var p Table
	p.Learn([]byte(`{"tools":[{"name":"a","inputSchema":`+schema+`},{"name":"b","inputSchema":{"properties":{"x":{"type":"string","x-mcp-header":"X"}}}}]}`), true, 10)
	require.Len(t, p.tools, 1)
}
