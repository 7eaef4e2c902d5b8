package schema

import (
	"regexp"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
)

// OpenAI describes a tool for OpenAI's chat completions, and for the many providers that
// take the same: {"type": "function", "function": {"name", "description", "parameters"}}.
func OpenAI(t mcpvisor.Tool) (function map[string]any, changed []Note) {
	n := notes{tool: t.Name}
	f := map[string]any{"name": name(t), "parameters": openAIParameters(t, &n)}
	describe(f, t, maxDescription, &n)
	return map[string]any{"type": "function", "function": f}, n.all()
}

// OpenAIResponses describes a tool for OpenAI's Responses API, which has no object around
// the function: {"type": "function", "name", "description", "parameters", "strict"}.
// "strict" is false: the default of that API, true, rejects most schemas.
func OpenAIResponses(t mcpvisor.Tool) (function map[string]any, changed []Note) {
	n := notes{tool: t.Name}
	f := map[string]any{"type": "function", "name": name(t), "parameters": openAIParameters(t, &n), "strict": false}
	describe(f, t, maxDescription, &n)
	return f, n.all()
}

// openAIParameters returns the input schema as OpenAI takes it: every object has
// properties, every array has items, and Python can compile every pattern.
func openAIParameters(t mcpvisor.Tool, n *notes) map[string]any {
	m := jsonSchema(t, n)
	each(m, nil, func(m map[string]any, at path) {
		names := types(m)
		if _, has := m["properties"]; !has && slices.Contains(names, "object") {
			n.add(at, "properties were added to an object without them")
			m["properties"] = map[string]any{}
		}
		if _, has := m["items"]; !has && slices.Contains(names, "array") {
			n.add(at, "items were added to an array without them")
			m["items"] = map[string]any{}
		}
		dropPatterns(m, at, n)
	})
	return m
}

// dropPatterns removes the regular expressions that providers cannot compile.
func dropPatterns(m map[string]any, at path, n *notes) {
	if p, ok := m["pattern"].(string); ok && !isPlainPattern(p) {
		n.add(at, "pattern was removed: the provider cannot compile it")
		delete(m, "pattern")
	}
	if patterns, ok := m["patternProperties"].(map[string]any); ok {
		for p := range patterns {
			if !isPlainPattern(p) {
				n.add(at, "a pattern of patternProperties was removed: the provider cannot compile it")
				delete(patterns, p)
				allowOthers(m)
			}
		}
		if len(patterns) == 0 {
			delete(m, "patternProperties")
		}
	}
}

// allowOthers lets a schema allow any further properties: what it no longer describes would
// be among them.
func allowOthers(m map[string]any) { delete(m, "additionalProperties") }

// plainEscapes are the letters that may follow a backslash in JavaScript, Python and Go
// with the same meaning.
const plainEscapes = "dDwWsSbBnrtfv"

// isPlainPattern reports whether a regular expression means the same to JavaScript,
// Python and Go: no lookaround, named groups, flags, and no escapes beyond the usual.
func isPlainPattern(p string) bool {
	for i := 0; i < len(p); i++ {
		switch p[i] {
		case '\\':
			if i++; i == len(p) {
				return false
			}
			if c := p[i]; (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9') && !strings.ContainsRune(plainEscapes, rune(c)) {
				return false
			}
		case '(':
			if strings.HasPrefix(p[i:], "(?") && !strings.HasPrefix(p[i:], "(?:") {
				return false
			}
		}
	}
	_, err := regexp.Compile(p)
	return err == nil
}
