//go:build !race

// The functions are pure, and the race detector makes the validator slow.

package schema_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"
)

// TestCatalogs_refuse_no_arguments: arguments that fit the schema of a real tool fit what
// every provider is given for it.
func TestCatalogs_refuse_no_arguments(t *testing.T) {
	fitting, tools := 0, 0
	for _, catalog := range catalogs(t) {
		for _, made := range catalog {
			tools++
			raw := made.Definition.InputSchema.(json.RawMessage)
			var root map[string]any
			require.NoError(t, json.Unmarshal(raw, &root))
			delete(root, "$schema") // some are of drafts that the validator does not know
			own, err := compile(root)
			if err != nil {
				continue // such as regular expressions that Go does not know
			}
			var fit []any
			for _, all := range []bool{true, false} {
				if args := sample(root, root, all, 0); own.Validate(args) == nil {
					fit = append(fit, args) // otherwise the sample is too simple
				}
			}
			fitting += len(fit)
			for _, provider := range []string{"openai", "anthropic", "gemini", "ollama"} {
				f, _ := formats[provider](made)
				parameters, err := compile(parametersOf(f))
				require.NoError(t, err, "%s for %s", made.Name, provider)
				for _, args := range fit {
					require.NoError(t, parameters.Validate(args), "%s for %s refuses %v", made.Name, provider, args)
				}
			}
		}
	}
	require.Greater(t, fitting, tools, "most samples fit: %d of %d", fitting, 2*tools)
}

func compile(m map[string]any) (*jsonschema.Resolved, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	s := new(jsonschema.Schema)
	if err := json.Unmarshal(text, s); err != nil {
		return nil, err
	}
	return s.Resolve(nil)
}

// sample makes a value that fits a simple schema: with all properties, or the required
// ones.
func sample(v any, root map[string]any, all bool, depth int) any {
	m, _ := v.(map[string]any)
	if ref, ok := m["$ref"].(string); ok && depth < 10 {
		var target any = root
		for _, step := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
			in, _ := target.(map[string]any)
			target = in[step]
		}
		return sample(target, root, all, depth+1)
	}
	if c, ok := m["const"]; ok {
		return c
	}
	if list, ok := m["enum"].([]any); ok {
		return list[len(list)-1]
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if list, ok := m[keyword].([]any); ok && m["properties"] == nil {
			return sample(list[len(list)-1], root, all, depth+1)
		}
	}
	number := func(keyword string, otherwise float64) float64 {
		if n, ok := m[keyword].(float64); ok {
			return n
		}
		return otherwise
	}
	kind, _ := m["type"].(string)
	if list, ok := m["type"].([]any); ok {
		kind, _ = list[0].(string)
	}
	switch kind {
	case "string":
		return strings.Repeat("1", int(max(number("minLength", 1), 1)))
	case "number", "integer":
		return max(number("minimum", 1), number("exclusiveMinimum", 0)+1)
	case "boolean":
		return true
	case "array":
		list := []any{}
		for range int(number("minItems", 1)) {
			list = append(list, sample(m["items"], root, all, depth+1))
		}
		return list
	case "null":
		return nil
	}
	object := map[string]any{}
	required, _ := m["required"].([]any)
	properties, _ := m["properties"].(map[string]any)
	for name, s := range properties {
		if depth < 10 && (all || slices.Contains(required, any(name))) {
			object[name] = sample(s, root, all, depth+1)
		}
	}
	return object
}
