package argcheck

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// loosener rebuilds a schema from the keywords that it knows, as one that refuses nothing
// that the schema allows. The validator gets nothing else: it ignores the case of keywords,
// trusts their values, and has keywords whose cost the guard cannot count.
//
// What is left out makes a schema looser, but for three places where a looser part refuses
// more: not, if and oneOf. These are left out, or written as anyOf, unless the part is the
// same as before.
type loosener struct {
	// refAlone: keywords beside $ref do not count, as in drafts up to 7.
	refAlone bool
	// refsExact: what references refer to was not made looser anywhere.
	refsExact bool
	loosened  bool // something was left out
	divides   bool // multipleOf is used
	err       error
}

// loosen rebuilds a schema. divides says that it uses multipleOf. The error says why it
// cannot be used.
func loosen(root map[string]any) (rebuilt any, divides bool, err error) {
	draft, _ := root["$schema"].(string)
	l := loosener{refAlone: strings.Contains(draft, "draft-0"), refsExact: true}
	rebuilt, _ = l.schema(root, 0)
	if l.loosened && l.err == nil { // references may lead to what was made looser
		again := loosener{refAlone: l.refAlone}
		rebuilt, _ = again.schema(root, 0)
		l.err = again.err
	}
	return rebuilt, l.divides, l.err
}

// dropped notes that a keyword was left out.
func (l *loosener) dropped() bool {
	l.loosened = true
	return false
}

// schema rebuilds a schema. exact: it allows the same as before.
func (l *loosener) schema(v any, depth int) (rebuilt any, exact bool) {
	m, ok := v.(map[string]any)
	switch {
	case v == true || v == false:
		return v, true
	case !ok:
		return true, l.dropped()
	case depth > maxDepth:
		l.err = fmt.Errorf("it is nested deeper than %d levels", maxDepth)
		return true, l.dropped()
	}
	for _, keyword := range []string{"$dynamicRef", "$recursiveRef", "$id"} {
		if _, ok := m[keyword].(string); ok && (depth > 0 || keyword != "$id") {
			l.err = fmt.Errorf("%s is not supported", keyword)
		}
	}
	out, exact := map[string]any{}, true
	for _, keyword := range []string{"$defs", "definitions"} {
		if named, ok := m[keyword].(map[string]any); ok {
			out[keyword], _ = l.named(named, depth)
		}
	}
	if ref, ok := m["$ref"].(string); ok {
		if ref != "#" && !strings.HasPrefix(ref, "#/") {
			l.err = fmt.Errorf("$ref %.80q refers to another place than the schema itself", ref)
		}
		out["$ref"], exact = ref, l.refsExact
		if l.refAlone {
			return out, exact
		}
	}
	all := []bool{exact, l.values(m, out), l.bounds(m, out), l.object(m, out, depth), l.list(m, out, depth), l.combined(m, out, depth)}
	for _, keyword := range []string{"uniqueItems", "unevaluatedProperties", "unevaluatedItems"} {
		if on, present := m[keyword]; present && on != false || keyword != "uniqueItems" && present {
			all = append(all, l.dropped())
		}
	}
	return out, !slices.Contains(all, false)
}

// named rebuilds the schemas of a map.
func (l *loosener) named(m map[string]any, depth int) (map[string]any, bool) {
	out, exact := map[string]any{}, true
	for name, v := range m {
		rebuilt, same := l.schema(v, depth+1)
		out[name], exact = rebuilt, exact && same
	}
	return out, exact
}

// each rebuilds the schemas of a list.
func (l *loosener) each(list []any, depth int) ([]any, bool) {
	out, exact := make([]any, 0, len(list)), true
	for _, v := range list {
		rebuilt, same := l.schema(v, depth+1)
		out, exact = append(out, rebuilt), exact && same
	}
	return out, exact
}

// knownTypes are the types of JSON Schema.
var knownTypes = []string{"null", "boolean", "object", "array", "number", "string", "integer"}

// values rebuilds type, enum, const and pattern.
func (l *loosener) values(m, out map[string]any) bool {
	exact := true
	nullable := m["nullable"] == true // OpenAPI
	if t, ok := m["type"]; ok {
		names := typeNames(t)
		if len(names) == 0 || slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(knownTypes, n) }) {
			exact = l.dropped()
		} else {
			if nullable && !slices.Contains(names, "null") {
				names = append(slices.Clone(names), "null")
			}
			list := make([]any, len(names))
			for i, n := range names {
				list[i] = n
			}
			out["type"] = list
			if len(list) == 1 {
				out["type"] = list[0]
			}
		}
	}
	if list, ok := m["enum"].([]any); ok {
		if nullable && !slices.Contains(list, nil) {
			list = append(slices.Clone(list), nil)
		}
		if out["enum"] = list; holdsLarge(list) {
			exact = l.dropped()
		}
	} else if _, ok := m["enum"]; ok {
		exact = l.dropped()
	}
	if v, ok := m["const"]; ok && !nullable {
		if out["const"] = v; holdsLarge(v) {
			exact = l.dropped()
		}
	} else if ok {
		exact = l.dropped()
	}
	if p, ok := m["pattern"]; ok {
		text, _ := p.(string)
		if translated, ok := translate(text); !ok {
			exact = l.dropped()
		} else if out["pattern"] = translated; translated != text {
			out["$comment"] = text // for the words of errors
		}
	}
	return exact
}

// bounds rebuilds the keywords whose values are numbers.
func (l *loosener) bounds(m, out map[string]any) bool {
	exact := true
	keep := func(keyword string, allowed func(n float64) bool) {
		v, present := m[keyword]
		if !present {
			return
		}
		if n, ok := v.(float64); ok && allowed(n) {
			out[keyword] = n
			return
		}
		exact = l.dropped()
	}
	for _, keyword := range []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"} {
		keep(keyword, func(n float64) bool { return !holdsLarge(n) })
	}
	// Draft 4 has booleans that make a bound exclusive; without them it allows more.
	for _, keyword := range []string{"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"} {
		keep(keyword, func(n float64) bool { return n >= 0 && n <= math.MaxInt32 && n == math.Trunc(n) })
	}
	// Divisors such as 0.01 have no exact value: 19.99 would be no multiple of it.
	keep("multipleOf", func(n float64) bool {
		return n >= 1.0/1024 && n <= math.MaxInt32 && n*1024 == math.Trunc(n*1024)
	})
	_, divides := out["multipleOf"]
	l.divides = l.divides || divides
	return exact
}

// largeNumber is where numbers begin that the validator does not tell apart: integers
// become float64.
const largeNumber = 1 << 53

// holdsLarge reports whether a value is or contains a large number.
func holdsLarge(v any) bool {
	switch v := v.(type) {
	case float64:
		return math.Abs(v) >= largeNumber
	case []any:
		return slices.ContainsFunc(v, holdsLarge)
	case map[string]any:
		for _, e := range v {
			if holdsLarge(e) {
				return true
			}
		}
	}
	return false
}

// stringsOf returns a list of strings.
func stringsOf(v any) (list []any, ok bool) {
	list, ok = v.([]any)
	return list, ok && !slices.ContainsFunc(list, func(e any) bool { _, isString := e.(string); return !isString })
}

// object rebuilds what applies to objects.
func (l *loosener) object(m, out map[string]any, depth int) bool {
	exact := true
	if v, ok := m["required"]; ok {
		if names, ok := stringsOf(v); ok {
			out["required"] = names
		} else {
			exact = l.dropped()
		}
	}
	if properties, ok := m["properties"].(map[string]any); ok {
		rebuilt, same := l.named(properties, depth)
		out["properties"], exact = rebuilt, exact && same
	} else if _, present := m["properties"]; present {
		exact, m = l.dropped(), without(m, "additionalProperties")
	}
	if patterns, ok := m["patternProperties"].(map[string]any); ok {
		kept := maps.Clone(patterns)
		maps.DeleteFunc(kept, func(p string, _ any) bool { return !sameInGo(p) })
		if len(kept) < len(patterns) { // additionalProperties would apply to what they match
			exact, m = l.dropped(), without(m, "additionalProperties")
		}
		rebuilt, same := l.named(kept, depth)
		out["patternProperties"], exact = rebuilt, exact && same
	} else if _, present := m["patternProperties"]; present {
		exact, m = l.dropped(), without(m, "additionalProperties")
	}
	for _, keyword := range []string{"additionalProperties", "propertyNames"} {
		if v, ok := m[keyword]; ok {
			rebuilt, same := l.schema(v, depth+1)
			out[keyword], exact = rebuilt, exact && same
		}
	}
	return l.dependent(m, out, depth) && exact
}

// dependent rebuilds what one property demands of others. dependencies is the keyword of
// drafts up to 7.
func (l *loosener) dependent(m, out map[string]any, depth int) bool {
	exact := true
	required, schemas := map[string]any{}, map[string]any{}
	for _, keyword := range []string{"dependencies", "dependentRequired", "dependentSchemas"} {
		named, ok := m[keyword].(map[string]any)
		if _, present := m[keyword]; present && !ok {
			exact = l.dropped()
		}
		for name, v := range named {
			if names, ok := stringsOf(v); ok && keyword != "dependentSchemas" {
				required[name] = names
			} else if _, isList := v.([]any); !isList && keyword != "dependentRequired" {
				rebuilt, same := l.schema(v, depth+1)
				schemas[name], exact = rebuilt, exact && same
			} else {
				exact = l.dropped()
			}
		}
	}
	if len(required) > 0 {
		out["dependentRequired"] = required
	}
	if len(schemas) > 0 {
		out["dependentSchemas"] = schemas
	}
	return exact
}

func without(m map[string]any, keyword string) map[string]any {
	m = maps.Clone(m)
	delete(m, keyword)
	return m
}

// list rebuilds what applies to lists. Drafts up to 7 have lists in items, and
// additionalItems for the rest.
func (l *loosener) list(m, out map[string]any, depth int) bool {
	exact := true
	prefix, rest := m["prefixItems"], m["items"]
	if _, isList := rest.([]any); isList {
		prefix, rest = rest, m["additionalItems"]
	}
	if prefix != nil {
		if items, ok := prefix.([]any); ok {
			rebuilt, same := l.each(items, depth)
			out["prefixItems"], exact = rebuilt, same
		} else {
			exact, rest = l.dropped(), nil
		}
	}
	if rest != nil {
		rebuilt, same := l.schema(rest, depth+1)
		out["items"], exact = rebuilt, exact && same
	}
	if v, ok := m["contains"]; ok {
		rebuilt, same := l.schema(v, depth+1)
		_, limited := m["maxContains"]
		_, counted := m["minContains"]
		_, isObject := v.(map[string]any)
		_, isBool := v.(bool)
		switch {
		case limited || counted, // rare, and a looser part could exceed the maximum
			!isObject && !isBool: // no schema, such as null: true would refuse the empty list
			exact = l.dropped()
		default:
			out["contains"], exact = rebuilt, exact && same
		}
	}
	return exact
}

// combined rebuilds what combines schemas.
func (l *loosener) combined(m, out map[string]any, depth int) bool {
	exact := true
	var alternatives []any // of oneOf, if it becomes anyOf
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		v, present := m[keyword]
		if !present {
			continue
		}
		list, ok := v.([]any)
		if !ok || len(list) == 0 {
			exact = l.dropped()
			continue
		}
		rebuilt, same := l.each(list, depth)
		exact = exact && same
		if keyword == "oneOf" && !same {
			alternatives = rebuilt
			continue
		}
		out[keyword] = rebuilt
	}
	if alternatives != nil {
		all, _ := out["allOf"].([]any)
		out["allOf"] = append(slices.Clone(all), map[string]any{"anyOf": alternatives})
	}
	if v, ok := m["not"]; ok {
		if rebuilt, same := l.schema(v, depth+1); same {
			out["not"] = rebuilt
		} else {
			exact = false
		}
	}
	if v, ok := m["if"]; ok {
		condition, same := l.schema(v, depth+1)
		if !same {
			return false
		}
		out["if"] = condition
		for _, keyword := range []string{"then", "else"} {
			if v, ok := m[keyword]; ok {
				rebuilt, same := l.schema(v, depth+1)
				out[keyword], exact = rebuilt, exact && same
			}
		}
	}
	return exact
}

// errNotObject is why a schema of something else than an object is not used.
var errNotObject = errors.New("it is not a schema of an object")
