package argcheck

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Whatever a server sends as a schema, and a model as arguments, comparing them ends, and
// its words have a rule.
func TestCheck_of_any_JSON(t *testing.T) {
	compiled, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		m, _ := drawJunk(t, 4).(map[string]any)
		schema, err := json.Marshal(m)
		require.NoError(t, err)
		s, err := Compile(schema)
		if err != nil {
			return
		}
		compiled++
		for range 4 {
			args, err := json.Marshal(drawJunk(t, 3))
			require.NoError(t, err)
			if broken := s.Check(args); broken != nil {
				refused++
				require.NotEmpty(t, broken.Rule)
				require.NotEmpty(t, broken.Reason)
			}
		}
	})
	require.NotZero(t, compiled)
	require.NotZero(t, refused)
}

var junkKeys = []string{"type", "type", "properties", "properties", "required", "items", "additionalProperties", "anyOf", "oneOf", "allOf", "not", "if", "then",
	"$ref", "$ref", "$defs", "enum", "const", "pattern", "patternProperties", "minimum", "exclusiveMinimum", "maxLength", "minItems", "prefixItems",
	"dependentSchemas", "dependentRequired", "unevaluatedProperties", "propertyNames", "contains", "multipleOf", "uniqueItems", "$schema", "$id", "$anchor", "a", "b"}

var junkValue = rapid.SampledFrom([]any{nil, true, false, 0.0, 1.5, 7.0, "", "object", "string", "a", "#", "#/", "#/properties/a",
	"#/$defs/a", "#/items", "#/allOf/0", "^a", `^\p{L}`, []any{}, []any{"object", "null"}, []any{"a", "b"}})

func drawJunk(t *rapid.T, depth int) any {
	if depth == 0 || rapid.IntRange(0, 4).Draw(t, "leaf") == 0 {
		return junkValue.Draw(t, "value")
	}
	if rapid.IntRange(0, 5).Draw(t, "list") == 0 {
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			list = append(list, drawJunk(t, depth-1))
		}
		return list
	}
	m := map[string]any{}
	for range rapid.IntRange(0, 6).Draw(t, "members") {
		m[rapid.SampledFrom(junkKeys).Draw(t, "key")] = drawJunk(t, depth-1)
	}
	return m
}
