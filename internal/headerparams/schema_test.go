package headerparams

import (
	"encoding/json"
	"fmt"
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
		_, err := Check(json.RawMessage(schema))
		if wrong == "" {
			require.NoError(t, err, schema)
			continue
		}
		require.ErrorContains(t, err, wrong, schema)
	}
}

// Marks beyond what fits into headers make a tool that cannot be called.
func TestCheck_tooMuchForHeaders(t *testing.T) {
	marks := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"a%d":{"type":"string","x-mcp-header":"A%d"}`, i, i)
		}
		return `{"properties":{` + b.String()[1:] + `}}`
	}
	kept, err := Check([]byte(marks(maxMarks)))
	require.NoError(t, err)
	require.Positive(t, kept)
	_, err = Check([]byte(marks(maxMarks + 1)))
	require.ErrorContains(t, err, "marks more than 64 arguments")
	_, err = Check([]byte(`{"properties":{"a":{"type":"string","x-mcp-header":"` + strings.Repeat("N", maxHeaderName+1) + `"}}}`))
	require.ErrorContains(t, err, "longer than 128 bytes")
	_, err = Check([]byte(`{"type":"object","properties":{"x":{"type":"string","x-mcp-header":"X"}` + strings.Repeat(`,"y":{}`, 10_000) + `}}`))
	require.ErrorContains(t, err, "more than 10000 values")
	kept, err = Check([]byte(`{"properties":{"a":{}}}`))
	require.NoError(t, err)
	require.Zero(t, kept)
}
