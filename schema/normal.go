package schema

import (
	"maps"
	"slices"
	"strings"
)

// The bounds of a schema after its references were replaced. A few references that
// multiply can make any number of schemas.
const (
	maxDepth   = 32
	maxSchemas = 5000
)

// normalizer brings one input schema into normal form: draft 2020-12, without
// references, "allOf" and boolean schemas (except for additionalProperties), and with values of the right form only.
type normalizer struct {
	root     any // the input schema as decoded
	notes    *notes
	maxDepth int
	schemas  int // made so far
	bytes    int // what they say; see take
}

// depthPerSchema is how many steps of a path usually lead to the next schema:
// "properties" and a name.
const depthPerSchema = 2

// schema returns the normal form of a schema. possible is false if no value is allowed.
func (z *normalizer) schema(v any, at path, active refs) (m map[string]any, possible bool) {
	raw, isObject := v.(map[string]any)
	switch b, isBool := v.(bool); {
	case isBool && !b:
		return nil, false
	case isBool:
		z.notes.add(at, "the schema true was replaced by {}, which also allows any value")
		return map[string]any{}, true
	case !isObject:
		z.notes.add(at, "what is not a schema was replaced by {}, which allows any value")
		return map[string]any{}, true
	case at.level() >= depthPerSchema*z.maxDepth:
		z.notes.add(at, "a schema nested deeper than %d levels was replaced by {}, which allows any value", z.maxDepth)
		return map[string]any{}, true
	}
	if z.schemas++; z.schemas > maxSchemas {
		z.notes.add(at, "after %d schemas the rest was replaced by {}, which allows any value", maxSchemas)
		return map[string]any{}, true
	}
	raw, active = z.flatten(raw, at, active)
	z.nullable(raw, at)
	m = make(map[string]any, len(raw))
	for _, keyword := range slices.Sorted(maps.Keys(raw)) {
		z.keyword(m, keyword, raw[keyword], at, active)
	}
	z.finish(m, at)
	return m, true
}

// keyword normalizes one keyword into m.
func (z *normalizer) keyword(m map[string]any, keyword string, v any, at path, active refs) {
	f, known := keywords[keyword]
	switch {
	case keyword == "type":
		z.typeKeyword(m, v, at)
		return
	case !known && len(keyword) > 0 && keyword[0] == '$':
		z.notes.add(at, "%.40s was removed: it is not supported", keyword)
		return
	case !known && lowerKeywords[strings.ToLower(keyword)]:
		z.notes.add(at, "%.40s was removed: programs that ignore case take it for another keyword", keyword)
		return
	case !known:
		m[keyword] = v
		return
	case f == formMeaningless:
		return
	case f == formNegative, f == formBranch && at != nil:
		z.notes.add(at, "%s was removed: where another change allows more, it would forbid more", keyword)
		return
	case !f.fits(v):
		z.notes.add(at, "%s was removed: its value has the wrong form", keyword)
		return
	}
	inner := at.to(keyword)
	switch f {
	case formSchema, formBranch:
		if keyword == "additionalProperties" {
			if _, isBool := v.(bool); isBool {
				m[keyword] = v
				return
			}
		}
		if s, possible := z.schema(v, inner, active); possible {
			m[keyword] = s
		} else {
			z.notes.add(at, "%s was removed: its schema false allows nothing", keyword)
		}
	case formSchemas:
		var list []any
		for i, e := range v.([]any) {
			if s, possible := z.schema(e, at.at(keyword, i), active); possible {
				list = append(list, s)
			} else {
				z.notes.add(at.at(keyword, i), "an alternative was removed: its schema false allows nothing")
			}
		}
		if len(list) > 0 {
			z.setAlternatives(m, keyword, list, at)
		}
	case formSchemaMap:
		schemas := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(v.(map[string]any))) {
			if s, possible := z.schema(v.(map[string]any)[name], inner.to(name), active); possible {
				schemas[name] = s
			} else {
				z.notes.add(inner.to(name), "a property was removed: its schema false allows nothing")
			}
		}
		m[keyword] = schemas
	case formList, formNames:
		list, repeated := unique(v.([]any))
		if repeated && keyword != "examples" {
			z.notes.add(inner, "an element that is listed twice was removed")
		}
		if len(list) > 0 {
			m[keyword] = list
		}
	default:
		m[keyword] = v
	}
}

// setAlternatives sets a list of schemas. "oneOf" becomes "anyOf": an alternative that a
// change lets match more could otherwise match together with another one. At the top level
// both are combined later.
func (z *normalizer) setAlternatives(m map[string]any, keyword string, list []any, at path) {
	if keyword == "oneOf" && at != nil {
		if _, has := m["anyOf"]; has {
			z.notes.add(at, "oneOf was removed: there is an anyOf, too")
			return
		}
		z.notes.add(at, "oneOf was replaced by anyOf")
		keyword = "anyOf"
	}
	m[keyword] = list
}

// typeKeyword normalizes "type". A list with an unknown name, which may mean any type, is
// removed as a whole.
func (z *normalizer) typeKeyword(m map[string]any, v any, at path) {
	list, isList := v.([]any)
	if !isList {
		list = []any{v}
	}
	var names []string
	for _, e := range list {
		name, _ := e.(string)
		normal, known := typeNames[name]
		if !known {
			z.notes.add(at, "the type was removed: JSON Schema has no type %.40q", name)
			return
		}
		if normal != name {
			z.notes.add(at, "the type %q was replaced by %q", name, normal)
		}
		if !slices.Contains(names, normal) {
			names = append(names, normal)
		}
	}
	setTypes(m, names)
}

// modernize replaces what draft 3, draft 4 and OpenAPI write differently. raw is the
// normalizer's own.
func (z *normalizer) modernize(raw map[string]any, at path) {
	for _, side := range [][2]string{{"exclusiveMinimum", "minimum"}, {"exclusiveMaximum", "maximum"}} {
		exclusive, isBool := raw[side[0]].(bool)
		if !isBool {
			continue
		}
		delete(raw, side[0])
		if bound, ok := raw[side[1]]; ok && exclusive {
			z.notes.add(at, "%s true was replaced by the number, the form of draft 2020-12", side[0])
			raw[side[0]] = bound
			delete(raw, side[1])
		}
	}
	if tuple, ok := raw["items"].([]any); ok {
		z.notes.add(at, "a list as items was replaced by prefixItems, the form of draft 2020-12")
		delete(raw, "items")
		if len(tuple) > 0 {
			raw["prefixItems"] = tuple
		}
		if rest, ok := raw["additionalItems"]; ok {
			if _, isBool := rest.(bool); !isBool {
				raw["items"] = rest
			}
		}
	}
	delete(raw, "additionalItems")
	if _, isBool := raw["required"].(bool); isBool {
		z.notes.add(at, "required was removed: it has to be a list in the object around it")
		delete(raw, "required")
	}
	if _, ok := raw["dependencies"]; ok {
		z.notes.add(at, "dependencies was removed: draft 2020-12 does not have it")
		delete(raw, "dependencies")
	}
}

// nullable replaces the keyword of OpenAPI. It is handled last, because what is combined may
// have the type.
func (z *normalizer) nullable(raw map[string]any, at path) {
	nullable, isBool := raw["nullable"].(bool)
	if !isBool {
		return
	}
	delete(raw, "nullable")
	if !nullable {
		return
	}
	z.notes.add(at, "nullable was replaced by the type null")
	switch t := raw["type"].(type) {
	case string:
		raw["type"] = []any{t, "null"}
	case []any:
		raw["type"] = append(slices.Clone(t), "null")
	}
	if list, ok := raw["enum"].([]any); ok && !slices.Contains(list, nil) {
		raw["enum"] = append(slices.Clone(list), nil)
	}
	if v, ok := raw["const"]; ok && v != nil {
		delete(raw, "const")
		raw["enum"] = []any{v, nil}
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if list, ok := raw[keyword].([]any); ok && len(list) > 0 {
			raw[keyword] = append(slices.Clone(list), map[string]any{"type": "null"})
		}
	}
}

// finish makes the keywords of one schema agree.
func (z *normalizer) finish(m map[string]any, at path) {
	if n, ok := m["multipleOf"].(float64); ok && n <= 0 {
		z.notes.add(at, "multipleOf was removed: it has to be above 0")
		delete(m, "multipleOf")
	}
	if dependents, ok := m["dependentRequired"].(map[string]any); ok {
		for name, list := range dependents {
			dependents[name], _ = unique(list.([]any))
		}
	}
}

// unique returns a list without repeated elements, as a copy.
func unique(list []any) (once []any, repeated bool) {
	once = make([]any, 0, len(list))
	seen := make(map[any]bool, len(list))
	for _, v := range list {
		k := key(v)
		if seen[k] {
			repeated = true
			continue
		}
		seen[k] = true
		once = append(once, v)
	}
	return once, repeated
}
