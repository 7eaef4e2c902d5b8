package headerparams

import (
	"encoding/json"
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
