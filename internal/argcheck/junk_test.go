package argcheck

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor/test/schematest"
)

// Whatever a server sends as a schema, and a model as arguments, comparing them ends, and
// its words have a rule.
func TestCheck_of_any_schema(t *testing.T) {
	refused := 0
	rapid.Check(t, func(t *rapid.T) {
		schema, err := json.Marshal(map[string]any{"type": "object",
			"properties": map[string]any{"a": drawSchema(t, 3), "b": drawSchema(t, 3)},
			"$defs":      map[string]any{"x": drawSchema(t, 2), "y": drawSchema(t, 2)}})
		require.NoError(t, err)
		for range 4 {
			args, err := json.Marshal(map[string]any{"a": drawValue(t, 3), "b": drawValue(t, 3)})
			require.NoError(t, err)
			if broken := first(string(schema), string(args)); broken != nil {
				refused++
				require.NotEmpty(t, broken.Rule)
				require.NotEmpty(t, broken.Reason)
			}
		}
	})
	require.NotZero(t, refused, "the test has arguments to refuse")
}

// Text that is no schema at all never ends the process.
func TestCheck_of_any_JSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schema, err := json.Marshal(schematest.DrawJSON(t, 4))
		require.NoError(t, err)
		args, err := json.Marshal(drawValue(t, 3))
		require.NoError(t, err)
		first(string(schema), string(args))
	})
}

// drawComparable draws a schema whose references end, and which a validator reads as it is.
func drawComparable(t *rapid.T) map[string]any {
	end := func() map[string]any {
		m := drawSchema(t, 2)
		withoutReferences(m)
		return m
	}
	m := map[string]any{"properties": map[string]any{"a": drawSchema(t, 3), "b": drawSchema(t, 3)}, "$defs": map[string]any{"x": end(), "y": end()}}
	withoutOtherReferences(m)
	return m
}

// withoutOtherReferences leaves the references to $defs.
func withoutOtherReferences(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			withoutOtherReferences(e)
		}
	case map[string]any:
		if ref, _ := v["$ref"].(string); ref != "" && !strings.HasPrefix(ref, "#/$defs/") {
			delete(v, "$ref")
		}
		for _, e := range v {
			withoutOtherReferences(e)
		}
	}
}

var names = rapid.SampledFrom([]string{"a", "b", "c"})

// drawSchema draws a valid schema, which may refer to itself in any way.
func drawSchema(t *rapid.T, depth int) map[string]any {
	kind := rapid.IntRange(0, 9).Draw(t, "kind")
	if depth == 0 {
		kind = 6 + kind%4
	}
	inner := func() any { return drawSchema(t, depth-1) }
	switch kind {
	case 0, 1:
		return map[string]any{"properties": map[string]any{names.Draw(t, "name"): inner()}, "required": []any{names.Draw(t, "name")},
			"additionalProperties": rapid.Bool().Draw(t, "more")}
	case 2:
		return map[string]any{rapid.SampledFrom([]string{"anyOf", "oneOf", "allOf", "prefixItems"}).Draw(t, "list"): []any{inner(), inner()}}
	case 3:
		return map[string]any{rapid.SampledFrom([]string{"not", "items", "contains", "additionalProperties", "unevaluatedProperties", "propertyNames"}).Draw(t, "one"): inner()}
	case 4:
		return map[string]any{"if": inner(), "then": inner(), "else": inner()}
	case 5:
		return map[string]any{"patternProperties": map[string]any{rapid.SampledFrom([]string{"^a", `\p{L}`, "(?!b)"}).Draw(t, "pattern"): inner()},
			"dependentSchemas": map[string]any{names.Draw(t, "name"): inner()}}
	case 6:
		return map[string]any{"$ref": rapid.SampledFrom([]string{"#", "#/$defs/x", "#/$defs/y", "#/properties/a"}).Draw(t, "ref")}
	case 7:
		return map[string]any{"enum": []any{drawValue(t, 0), drawValue(t, 0)}}
	case 8:
		return map[string]any{"minimum": 1.0, "maxLength": 1.0, "maxItems": 1.0, "maxProperties": 1.0, "uniqueItems": true}
	}
	return map[string]any{"type": rapid.SampledFrom([]any{"string", "integer", "object", "array", []any{"null", "number"}}).Draw(t, "type")}
}

func drawValue(t *rapid.T, depth int) any {
	if depth > 0 {
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return []any{drawValue(t, depth-1), drawValue(t, depth-1)}
		case 1:
			return map[string]any{names.Draw(t, "name"): drawValue(t, depth-1), names.Draw(t, "name"): drawValue(t, depth-1)}
		}
	}
	return rapid.SampledFrom([]any{nil, true, 0.0, 2.5, "a", "long"}).Draw(t, "value")
}
