package schema

import (
	"maps"
	"slices"

	"github.com/mcpvisor/mcpvisor"
)

// Gemini describes a tool for Google's Gemini API and Vertex AI, as an element of
// "functionDeclarations": {"name", "description", "parametersJsonSchema"}. The schema uses
// only the keywords that Gemini documents.
//
// parametersJsonSchema is there even for a tool without parameters: the function calling
// mode ANY rejects declarations without it.
func Gemini(t mcpvisor.Tool) (declaration map[string]any, changed []Note) {
	n := notes{tool: t.Name}
	m := normalSchema(t, &n, geminiDepth)
	each(m, nil, func(m map[string]any, at path) { toGemini(m, at, &n) })
	declaration = map[string]any{"name": name(t), "parametersJsonSchema": m}
	describe(declaration, t, 0, &n)
	return declaration, n.all()
}

// geminiDepth bounds the nesting for Gemini, which rejects deep schemas without saying
// where its bound is.
const geminiDepth = 16

// geminiKeywords are what Gemini knows.
var geminiKeywords = []string{"type", "format", "title", "description", "enum", "items", "prefixItems", "minItems", "maxItems",
	"minimum", "maximum", "anyOf", "properties", "additionalProperties", "required"}

// geminiFormats are the formats that Gemini knows.
var geminiFormats = []string{"date-time", "date", "time", "int32", "int64", "float", "double"}

// toGemini changes one schema in normal form to what Gemini takes.
func toGemini(m map[string]any, at path, n *notes) {
	constToEnum(m, at, n)
	geminiEnum(m, at, n)
	if f, ok := m["format"].(string); ok && !slices.Contains(geminiFormats, f) {
		n.add(at, "the format %.40q was removed: Gemini does not know it", f)
		delete(m, "format")
	}
	for _, side := range [][2]string{{"exclusiveMinimum", "minimum"}, {"exclusiveMaximum", "maximum"}} {
		if bound, ok := m[side[0]].(float64); ok {
			if _, has := m[side[1]]; !has {
				n.add(at, "%s was replaced by %s, which allows the bound itself", side[0], side[1])
				m[side[1]] = bound
			}
			delete(m, side[0])
		}
	}
	keepOnly(m, geminiKeywords, at, n, "Gemini")
	if slices.Contains(types(m), "array") && m["items"] == nil && m["prefixItems"] == nil {
		n.add(at, "items were added to an array without them")
		m["items"] = map[string]any{}
	}
	requireDefined(m, at, n)
}

// constToEnum writes "const" as an "enum" of one value.
func constToEnum(m map[string]any, at path, n *notes) {
	v, ok := m["const"]
	if !ok {
		return
	}
	n.add(at, "const was replaced by enum")
	delete(m, "const")
	m["enum"] = []any{v}
}

// geminiEnum keeps an enum of texts or numbers. Null in it becomes an alternative.
func geminiEnum(m map[string]any, at path, n *notes) {
	list, ok := m["enum"].([]any)
	if !ok {
		return
	}
	values := slices.DeleteFunc(slices.Clone(list), func(v any) bool { return v == nil })
	names := types(m)
	mayBeNull := len(values) < len(list) && (len(names) == 0 || slices.Contains(names, "null"))
	kind, uniform := enumType(values)
	_, hasAlternatives := m["anyOf"]
	switch {
	case len(values) == 0:
		n.add(at, "enum was replaced by the type null")
		delete(m, "enum")
		m["type"] = "null"
	case !uniform, mayBeNull && hasAlternatives:
		n.add(at, "enum was removed: Gemini takes texts or numbers there, and not both")
		delete(m, "enum")
	case mayBeNull:
		n.add(at, "null in enum was replaced by an alternative")
		delete(m, "enum")
		delete(m, "type")
		m["anyOf"] = []any{map[string]any{"type": kind, "enum": values}, map[string]any{"type": "null"}}
	default:
		m["enum"] = values
		if len(names) == 0 {
			m["type"] = kind
		}
	}
}

// enumType returns the type of values that are all texts, or all numbers.
func enumType(values []any) (name string, uniform bool) {
	for i, v := range values {
		own := ""
		switch v.(type) {
		case string:
			own = "string"
		case float64:
			own = "number"
		}
		if own == "" || i > 0 && own != name {
			return "", false
		}
		name = own
	}
	return name, true
}

// keepOnly removes the keywords that a provider does not know.
func keepOnly(m map[string]any, known []string, at path, n *notes, provider string) {
	for _, keyword := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(known, keyword) {
			n.add(at, "%.40s was removed: %s does not know it", keyword, provider)
			if keyword == "patternProperties" {
				allowOthers(m)
			}
			delete(m, keyword)
		}
	}
}

// requireDefined removes the names from "required" that no property has.
func requireDefined(m map[string]any, at path, n *notes) {
	list, ok := m["required"].([]any)
	if !ok {
		return
	}
	properties, _ := m["properties"].(map[string]any)
	defined := slices.DeleteFunc(slices.Clone(list), func(e any) bool {
		s, _ := e.(string)
		_, has := properties[s]
		return !has
	})
	if len(defined) == len(list) {
		return
	}
	n.add(at, "a required name that no property has was removed")
	if m["required"] = defined; len(defined) == 0 {
		delete(m, "required")
	}
}
