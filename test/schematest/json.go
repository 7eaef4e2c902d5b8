// Package schematest makes random input for tests of code that reads JSON Schemas.
package schematest

import "pgregory.net/rapid"

// keys are the members of objects: keywords of JSON Schema, names, and unknown ones. The
// keywords that give a schema its form come more often.
var keys = rapid.SampledFrom([]string{"type", "type", "properties", "properties", "required", "items", "additionalProperties",
	"anyOf", "oneOf", "allOf", "not", "if", "then", "else", "$ref", "$ref", "$dynamicRef", "$defs", "definitions", "$schema", "$id", "$anchor",
	"enum", "const", "default", "description", "title", "format", "pattern", "patternProperties", "minimum", "exclusiveMinimum",
	"maxLength", "minItems", "multipleOf", "uniqueItems", "nullable", "prefixItems", "additionalItems", "contains", "examples",
	"dependentSchemas", "dependentRequired", "dependencies", "unevaluatedProperties", "propertyNames", "x-own", "a", "b"})

// values are neither objects nor, except for a few, arrays.
var values = rapid.SampledFrom([]any{nil, true, false, 0.0, -1.0, 1.5, 7.0, "", "object", "string", "array", "null", "any", "a",
	"#", "#/", "#/properties/a", "#/$defs/a", "#/items", "#/allOf/0", "http://example.com", "[", "^a", `^\p{L}`,
	[]any{}, []any{"object", "null"}, []any{"string", "string"}, []any{"a", "b"}, []any{"a", "b", "a", 1.0}})

// DrawJSON draws any JSON value that nests to the given depth. It resembles a schema, and
// mostly is no valid one.
func DrawJSON(t *rapid.T, depth int) any {
	if depth == 0 || rapid.IntRange(0, 4).Draw(t, "leaf") == 0 {
		return values.Draw(t, "value")
	}
	if rapid.IntRange(0, 5).Draw(t, "list") == 0 {
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			list = append(list, DrawJSON(t, depth-1))
		}
		return list
	}
	m := map[string]any{}
	for range rapid.IntRange(0, 6).Draw(t, "members") {
		m[keys.Draw(t, "key")] = DrawJSON(t, depth-1)
	}
	return m
}
