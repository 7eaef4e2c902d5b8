package schema_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestFormats_of_any_JSON: whatever a server sends as a schema, each provider gets what it
// takes, and the same each time.
func TestFormats_of_any_JSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		input, err := json.Marshal(drawJunk(t, 4))
		require.NoError(t, err)
		for _, provider := range slices.Sorted(maps.Keys(formats)) {
			f, notes := formats[provider](tool("s", "t", "", string(input)))
			m := parametersOf(f)
			text, err := json.Marshal(m)
			require.NoError(t, err)
			var read map[string]any
			require.NoError(t, json.Unmarshal(text, &read))
			require.Empty(t, providerRules[provider].check("t", "", read), "%s: %s becomes %s", provider, input, text)

			s := new(jsonschema.Schema)
			require.NoError(t, json.Unmarshal(text, s), "%s: %s becomes %s", provider, input, text)
			again, sameNotes := formats[provider](tool("s", "t", "", string(input)))
			require.Equal(t, f, again)
			require.Equal(t, notes, sameNotes)
		}
	})
}

var junkKeys = []string{"type", "properties", "required", "items", "additionalProperties", "anyOf", "oneOf", "allOf", "not", "if", "then", "else",
	"$ref", "$defs", "definitions", "enum", "const", "default", "description", "title", "format", "pattern", "patternProperties", "minimum",
	"exclusiveMinimum", "maxLength", "minItems", "nullable", "prefixItems", "additionalItems", "dependentSchemas", "dependentRequired", "dependencies",
	"unevaluatedProperties", "propertyNames", "contains", "multipleOf", "examples", "uniqueItems", "$schema", "$dynamicRef", "x-own", "a", "b"}

var junkValue = rapid.SampledFrom([]any{nil, true, false, 0.0, -1.0, 1.5, 7.0, "", "object", "string", "array", "null", "any", "a", "#", "#/", "#/properties/a",
	"#/$defs/a", "#/items", "#/allOf/0", "http://example.com", "[", `^\p{L}`, []any{}, []any{"object", "null"}, []any{"string", "string"}, []any{"a", "b", "a", 1.0}})

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
