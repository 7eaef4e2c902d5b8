package schema

import (
	"maps"
	"slices"

	"github.com/mcpvisor/mcpvisor"
)

// Ollama describes a tool for Ollama's chat API, in the form of OpenAI. Ollama reads a
// part of JSON Schema and ignores the rest, so the rest is removed, and told.
func Ollama(t mcpvisor.Tool) (tool map[string]any, changed []Note) {
	n := notes{tool: t.Name}
	m := jsonSchema(t, &n)
	toOllama(m, ollamaRoot, nil, &n)
	f := map[string]any{"name": name(t), "parameters": m}
	describe(f, t, 0, &n)
	return map[string]any{"type": "function", "function": f}, n.all()
}

// What Ollama reads at the top level, and in each property. It passes "items" on as they
// are.
var (
	ollamaRoot     = []string{"type", "properties", "required"}
	ollamaProperty = []string{"type", "description", "enum", "items", "anyOf", "properties"}
)

// toOllama changes a schema in normal form to what Ollama reads.
func toOllama(m map[string]any, known []string, at path, n *notes) {
	constToEnum(m, at, n)
	dropRest(m, at, n)
	keepOnly(m, known, at, n, "Ollama")
	properties, _ := m["properties"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		if s, ok := properties[key].(map[string]any); ok {
			toOllama(s, ollamaProperty, at.to("properties").to(key), n)
		}
	}
	list, _ := m["anyOf"].([]any)
	for i, e := range list {
		if s, ok := e.(map[string]any); ok {
			toOllama(s, ollamaProperty, at.at("anyOf", i), n)
		}
	}
}
