package headerparams

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheck(t *testing.T) {
	for schema, wrong := range map[string]string{
		`{}`:                                     "",
		`{"properties":{"a":{"type":"string"}}}`: "",
		`{"properties":{"a":{"type":"string","x-mcp-header":"Region"},"b":{"type":"integer","x-mcp-header":"N"},"c":{"type":"boolean","x-mcp-header":"F"}}}`: "",
		`{"properties":{"o":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}}}`:                                                     "",
		`{"properties":{"a":{"type":"string","x-mcp-header":""}}}`:                                                                                           `of "a" is not a valid header name`,
		`{"properties":{"a":{"type":"string","x-mcp-header":"two words"}}}`:                                                                                  `of "a" is not a valid header name`,
		`{"properties":{"a":{"type":"string","x-mcp-header":7}}}`:                                                                                            `of "a" is not a valid header name`,
		`{"properties":{"a":{"type":"number","x-mcp-header":"N"}}}`:                                                                                          `of "a" marks a value`,
		`{"properties":{"a":{"type":["string","null"],"x-mcp-header":"N"}}}`:                                                                                 `of "a" marks a value`,
		`{"properties":{"a":{"type":"object","x-mcp-header":"N"}}}`:                                                                                          `of "a" marks a value`,
		`{"properties":{"a":{"type":"string","x-mcp-header":"N"},"o":{"properties":{"b":{"type":"string","x-mcp-header":"n"}}}}}`:                            `"n" marks two values`,
		`{"properties":["x-mcp-header"]}`:                                                                                                                    "cannot be read",
		`{"properties":{"x-mcp-header":[]}}`:                                                                                                                 "cannot be read",
		`{"properties":[{"x-mcp-header":"N"}]}`:                                                                                                              "cannot be read",
	} {
		err := Check(json.RawMessage(schema))
		if wrong == "" {
			require.NoError(t, err, schema)
			continue
		}
		require.ErrorContains(t, err, wrong, schema)
	}
}

// A schema with too many values is rejected, and its annotations are not stored.
func TestCheck_schemaTooLarge(t *testing.T) {
	schema := `{"type":"object","properties":{"x":{"type":"string","x-mcp-header":"X"}` + strings.Repeat(`,"y":{}`, 10_000) + `}}`
	require.ErrorContains(t, Check([]byte(schema)), "more than 10000 values")
	var p Table
	p.Learn([]byte(`{"tools":[{"name":"a","inputSchema":`+schema+`},{"name":"b","inputSchema":{"properties":{"x":{"type":"string","x-mcp-header":"X"}}}}]}`), true, 10)
	require.Len(t, p.tools, 1)
}
