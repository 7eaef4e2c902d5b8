package schema

import (
	"maps"
	"reflect"
	"slices"

	"github.com/mcpvisor/mcpvisor"
)

// jsonSchema returns the input schema of a tool in normal form, as an object with
// properties and without alternatives at the top level.
func jsonSchema(t mcpvisor.Tool, n *notes) map[string]any { return normalSchema(t, n, maxDepth) }

func normalSchema(t mcpvisor.Tool, n *notes, depth int) map[string]any {
	z := &normalizer{root: inputSchema(t, n), notes: n, maxDepth: depth}
	raw, ok := z.root.(map[string]any)
	if !ok {
		if z.root != nil {
			n.add(nil, "the input schema is not a schema of an object, so any arguments are allowed")
		}
		return emptyObject()
	}
	m, _ := z.schema(raw, nil, refs{"#"})
	m = z.asObject(m)
	dropHidden(m, n)
	return m
}

func emptyObject() map[string]any {
	return map[string]any{"type": "object", "properties": map[string]any{}}
}

// asObject makes an object of the schema of all arguments.
func (z *normalizer) asObject(m map[string]any) map[string]any {
	switch names := types(m); {
	case len(names) == 0 || slices.Equal(names, []string{"object"}):
	case slices.Contains(names, "object"):
		z.notes.add(nil, "the type was reduced to object, which arguments always are")
	default:
		z.notes.add(nil, "the type was replaced by object, which arguments always are")
		m = map[string]any{}
	}
	m["type"] = "object"
	properties, _ := m["properties"].(map[string]any)
	if properties == nil {
		properties = map[string]any{}
		m["properties"] = properties
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if list, ok := m[keyword].([]any); ok {
			z.notes.add(nil, "%s at the top level was combined into one object: which properties go together is left to the server", keyword)
			delete(m, keyword)
			m["required"] = alsoRequired(m["required"], z.addAlternatives(properties, list))
		}
	}
	z.addAlternatives(properties, []any{m["then"], m["else"]})
	for _, keyword := range []string{"enum", "const", "then", "else"} {
		if _, ok := m[keyword]; ok {
			z.notes.add(nil, "%s at the top level was removed: providers reject it there", keyword)
			delete(m, keyword)
		}
	}
	if list, ok := m["required"].([]any); ok && len(list) == 0 {
		delete(m, "required")
	}
	return m
}

// addAlternatives adds the properties of alternatives. A property that alternatives
// describe differently may be as any of them says. It returns what all require.
func (z *normalizer) addAlternatives(properties map[string]any, list []any) (required []any) {
	described := map[string][]any{}
	for i, e := range list {
		alternative, _ := e.(map[string]any)
		if nested, ok := alternative["properties"].(map[string]any); ok {
			for name, v := range nested {
				if _, has := properties[name]; !has {
					described[name] = append(described[name], v)
				}
			}
		}
		needs, _ := alternative["required"].([]any)
		if i == 0 {
			required = needs
		} else {
			required = common(required, needs)
		}
	}
	for name, alternatives := range described {
		properties[name] = either(alternatives)
	}
	return required
}

// either returns a schema that allows what one of the alternatives allows.
func either(alternatives []any) any {
	var flat []any
	for _, a := range alternatives {
		m, _ := a.(map[string]any)
		if list, ok := m["anyOf"].([]any); ok && len(m) == 1 {
			flat = append(flat, list...)
		} else {
			flat = append(flat, a)
		}
	}
	flat, _ = unique(flat)
	if len(flat) == 1 {
		return flat[0]
	}
	if merged, ok := eitherValue(flat); ok {
		return merged
	}
	return map[string]any{"anyOf": flat}
}

// eitherValue combines alternatives of texts that are given by "const" or "enum": they
// choose between the branches of a union.
func eitherValue(alternatives []any) (any, bool) {
	var values []any
	merged := map[string]any{}
	for _, e := range alternatives {
		m, _ := e.(map[string]any)
		own := maps.Clone(m)
		if v, ok := m["const"]; ok {
			values = append(values, v)
		} else if list, ok := m["enum"].([]any); ok {
			values = append(values, list...)
		} else {
			return nil, false
		}
		delete(own, "const")
		delete(own, "enum")
		for keyword, v := range own {
			if keyword == "type" && merged["type"] != nil && !reflect.DeepEqual(merged["type"], v) {
				return nil, false
			}
			if _, ok := merged[keyword]; !ok {
				merged[keyword] = v
			}
		}
	}
	merged["enum"], _ = unique(values)
	return merged, true
}

func alsoRequired(have any, more []any) []any {
	list, _ := have.([]any)
	list, _ = unique(slices.Concat(list, more))
	return list
}

// each calls f for a normal schema and all schemas in it, the inner ones first. f may
// change the schema.
func each(m map[string]any, at path, f func(m map[string]any, at path)) {
	for _, keyword := range slices.Sorted(maps.Keys(m)) {
		switch keywords[keyword] {
		case formSchema:
			if s, ok := m[keyword].(map[string]any); ok {
				each(s, at.to(keyword), f)
			}
		case formSchemas:
			list, _ := m[keyword].([]any)
			for i, e := range list {
				if s, ok := e.(map[string]any); ok {
					each(s, at.at(keyword, i), f)
				}
			}
		case formSchemaMap:
			schemas, _ := m[keyword].(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(schemas)) {
				if s, ok := schemas[name].(map[string]any); ok {
					each(s, at.to(keyword).to(name), f)
				}
			}
		default:
		}
	}
	f(m, at)
}
