package argcheck

import (
	"net/url"
	"strconv"
	"strings"
)

const (
	// maxSteps bounds how many schemas are compared with values, in all.
	maxSteps = 30_000
	// maxDepth bounds how deep a comparison is nested.
	maxDepth = 64
	// bytesPerStep is how much of a value counts as one more step, and levelsPerStep how
	// much depth: the validator writes values into the errors of alternatives, and each
	// level copies the errors of those below.
	bytesPerStep  = 256
	levelsPerStep = 8
	// bytesPerMatch is how much of a text counts as one more step, if it has to match a
	// pattern.
	bytesPerMatch = 16
)

// guard counts at most what the validator would do.
type guard struct {
	root     any
	steps    int
	exceeded bool
}

// visit counts the comparison of a value with a schema, whatever its outcome.
func (g *guard) visit(schema, value any, depth int) {
	m, ok := schema.(map[string]any)
	if g.exceeded || !ok {
		return
	}
	g.steps += (1 + size(value)/bytesPerStep) * (1 + depth/levelsPerStep)
	if text, ok := value.(string); ok && m["pattern"] != nil {
		g.steps += len(text) / bytesPerMatch
	}
	if list, ok := m["enum"].([]any); ok {
		g.steps += len(list)
	}
	if g.steps > maxSteps || depth > maxDepth {
		g.exceeded = true
		return
	}
	if ref, ok := m["$ref"].(string); ok {
		g.visit(find(g.root, ref), value, depth+1)
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := m[keyword].([]any)
		for _, alternative := range list {
			g.visit(alternative, value, depth+1)
		}
	}
	for _, keyword := range []string{"not", "if", "then", "else"} {
		g.visit(m[keyword], value, depth+1)
	}
	dependent, _ := m["dependentSchemas"].(map[string]any)
	for _, s := range dependent {
		g.visit(s, value, depth+1)
	}
	switch value := value.(type) {
	case []any:
		g.visitItems(m, value, depth+1)
	case map[string]any:
		g.visitProperties(m, value, depth+1)
	}
}

func (g *guard) visitItems(m map[string]any, list []any, depth int) {
	for i, v := range list {
		if tuple, ok := m["prefixItems"].([]any); ok && i < len(tuple) {
			g.visit(tuple[i], v, depth)
		}
		g.visit(m["items"], v, depth)
		g.visit(m["contains"], v, depth)
	}
}

func (g *guard) visitProperties(m, object map[string]any, depth int) {
	properties, _ := m["properties"].(map[string]any)
	patterns, _ := m["patternProperties"].(map[string]any)
	for name, v := range object {
		g.visit(properties[name], v, depth)
		for _, s := range patterns {
			g.steps += 1 + len(name)/bytesPerMatch
			g.visit(s, v, depth)
		}
		g.visit(m["additionalProperties"], v, depth)
		g.visit(m["propertyNames"], name, depth)
	}
}

// size is about how many bytes a value has as text.
func size(v any) (n int) {
	switch v := v.(type) {
	case string:
		return len(v)
	case []any:
		for _, e := range v {
			n += 2 + size(e)
		}
	case map[string]any:
		for name, e := range v {
			n += len(name) + 2 + size(e)
		}
	default:
		return 8
	}
	return n
}

// find returns what a reference within a schema refers to; nil if there is no such thing.
func find(root any, ref string) any {
	pointer, err := url.PathUnescape(strings.TrimPrefix(ref, "#"))
	if err != nil {
		return nil
	}
	v := root
	for _, step := range strings.Split(pointer, "/")[1:] {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		switch in := v.(type) {
		case map[string]any:
			v = in[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(in) {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}
