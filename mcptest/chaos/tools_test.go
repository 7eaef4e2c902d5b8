package chaos

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestArgumentsFor(t *testing.T) {
	for schema, want := range map[string]string{
		``:                  `{}`,
		`{"type":"object"}`: `{}`,
		`{"properties":{"path":{"type":"string"}}}`:                                                           `{}`,
		`{"properties":{"path":{"type":"string"}},"required":["path"]}`:                                       "",
		`{"required":["path"]}`:                                                                               "",
		`{"properties":{"n":{"type":"integer"},"m":{"type":"number","minimum":7}},"required":["n","m"]}`:      `{"m":7,"n":1}`,
		`{"properties":{"a":{"enum":["x","y"]},"b":{"default":2},"c":{"const":null}},"required":["a","b"]}`:   `{"a":"x","b":2}`,
		`{"properties":{"a":{"type":"boolean"},"b":{"type":"string","examples":["e"]}},"required":["a","b"]}`: `{"a":false,"b":"e"}`,
		`{"required":"path"}`: "",
		`not json`:            "",
	} {
		args, ok := argumentsFor(json.RawMessage(schema))
		require.Equal(t, want != "", ok, schema)
		if ok {
			require.JSONEq(t, want, string(args), schema)
		}
	}
}

func TestDifference(t *testing.T) {
	before := map[string]string{"tool a": "1", "tool b": "2"}
	require.Empty(t, difference(before, map[string]string{"tool a": "1", "tool b": "2"}))
	require.Equal(t, "missing: tool a; new: tool c; changed: tool b", difference(before, map[string]string{"tool b": "3", "tool c": "4"}))
}
