package schema

import (
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// refs are the references that were followed to a schema. It is immutable.
type refs []string

func (r refs) with(ref string) refs { return append(slices.Clip(r), ref) }

// maxFollowed bounds the references and alternatives of "allOf" in one schema.
const maxFollowed = 100

// flatten returns a schema without "$ref" and "allOf": what they add is combined with the
// other keywords. The map is the caller's, its values are not. active has the followed
// references, too.
func (z *normalizer) flatten(raw map[string]any, at path, active refs) (map[string]any, refs) {
	followed := 0
	flat, active := z.combineInto(map[string]any{}, raw, at, active, &followed)
	return flat, active
}

// combineInto combines raw, and what it refers to, into flat.
func (z *normalizer) combineInto(flat, raw map[string]any, at path, active refs, followed *int) (map[string]any, refs) {
	if *followed++; *followed > maxFollowed {
		z.notes.add(at, "after %d references and alternatives in one schema the rest was left out", maxFollowed)
		return flat, active
	}
	if !z.take(raw) {
		z.notes.add(at, "after %d bytes of texts and values the rest was left out", maxBytes)
		return flat, active
	}
	raw = maps.Clone(raw)
	z.modernize(raw, at)
	z.keepUnits(flat, raw, at)
	for _, keyword := range slices.Sorted(maps.Keys(raw)) {
		if keyword != "$ref" && keyword != "$dynamicRef" && keyword != "$recursiveRef" && keyword != "allOf" {
			z.combine(flat, keyword, raw[keyword], at)
		}
	}
	if ref, ok := raw["$ref"].(string); ok {
		flat, active = z.follow(flat, ref, at, active, followed)
	}
	for _, keyword := range []string{"$dynamicRef", "$recursiveRef"} {
		if _, ok := raw[keyword]; ok {
			z.notes.add(at, "%s was removed: it is not supported", keyword)
		}
	}
	all, _ := raw["allOf"].([]any)
	for i, part := range all {
		if m, ok := part.(map[string]any); ok {
			flat, active = z.combineInto(flat, m, at.at("allOf", i), active, followed)
		}
	}
	if len(all) > 0 {
		z.notes.add(at, "allOf was combined into one schema")
	}
	return flat, active
}

// units are keywords that mean something together only.
var units = [][]string{{"if", "then", "else"}, {"prefixItems", "items"}, {"contains", "minContains", "maxContains"}}

// keepUnits removes from raw the units of which flat has another one: parts of two would
// say what neither says.
func (z *normalizer) keepUnits(flat, raw map[string]any, at path) {
	if _, conditional := raw["if"]; !conditional {
		delete(raw, "then")
		delete(raw, "else")
	}
	for _, unit := range units {
		some, same := false, true
		for _, keyword := range unit {
			_, has := flat[keyword]
			some = some || has
			same = same && reflect.DeepEqual(flat[keyword], raw[keyword])
		}
		if !some || same {
			continue
		}
		for _, keyword := range unit {
			if _, has := raw[keyword]; has {
				z.notes.add(at, "of two different %s only the first was kept", unit[0])
				delete(raw, keyword)
			}
		}
	}
}

// follow combines what a reference refers to.
func (z *normalizer) follow(flat map[string]any, ref string, at path, active refs, followed *int) (map[string]any, refs) {
	target, found := z.find(ref)
	switch {
	case !found:
		z.notes.add(at, "the reference %.80q was removed: the schema does not contain its target", ref)
		return flat, active
	case slices.Contains(active, ref):
		z.notes.add(at, "the recursive reference %.80q was cut: any value is allowed there", ref)
		if m, ok := target.(map[string]any); ok {
			for _, keyword := range []string{"type", "title", "description"} {
				if v, ok := m[keyword]; ok {
					z.combine(flat, keyword, v, at)
				}
			}
		}
		return flat, active
	}
	z.notes.add(at, "a reference was replaced by what it refers to")
	if m, ok := target.(map[string]any); ok {
		return z.combineInto(flat, m, at, active.with(ref), followed)
	}
	return flat, active
}

// find returns what a reference within the schema refers to.
func (z *normalizer) find(ref string) (any, bool) {
	pointer, local := strings.CutPrefix(ref, "#")
	if !local || pointer != "" && pointer[0] != '/' {
		return nil, false
	}
	pointer, err := url.PathUnescape(pointer)
	if err != nil {
		return nil, false
	}
	v := z.root
	for _, step := range strings.Split(pointer, "/")[1:] {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		switch in := v.(type) {
		case map[string]any:
			next, ok := in[step]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(in) {
				return nil, false
			}
			v = in[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// combine adds a keyword to a schema that may have it already, so that what both say
// holds.
func (z *normalizer) combine(flat map[string]any, keyword string, v any, at path) {
	have, ok := flat[keyword]
	if !ok {
		flat[keyword] = v
		return
	}
	switch keyword {
	case "title", "description", "default", "examples", "$defs", "definitions", "$schema", "$id", "$comment":
		return // the outer one is more specific
	case "properties", "patternProperties":
		a, isMap := have.(map[string]any)
		b, isMapToo := v.(map[string]any)
		if isMap && isMapToo {
			flat[keyword] = combineProperties(a, b)
			return
		}
	case "required":
		a, isList := have.([]any)
		b, isListToo := v.([]any)
		if isList && isListToo {
			flat[keyword], _ = unique(slices.Concat(a, b))
			return
		}
	case "enum":
		a, isList := have.([]any)
		b, isListToo := v.([]any)
		if isList && isListToo {
			if both := common(a, b); len(both) > 0 {
				flat[keyword] = both
				return
			}
		}
	case "type":
		a, b := typesIn(have), typesIn(v)
		if len(a) == 0 {
			flat[keyword] = v
			return
		}
		if len(b) == 0 {
			return
		}
		if both := commonTypes(a, b); both != nil {
			flat[keyword] = both
			return
		}
	case "minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties":
		if tighter(flat, keyword, have, v, func(a, b float64) float64 { return max(a, b) }) {
			return
		}
	case "maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties":
		if tighter(flat, keyword, have, v, func(a, b float64) float64 { return min(a, b) }) {
			return
		}
	case "additionalProperties":
		if isTrue(v) {
			return
		}
		if isTrue(have) {
			flat[keyword] = v
			return
		}
	}
	if !reflect.DeepEqual(have, v) {
		z.notes.add(at, "of two different %.40s only the first was kept", keyword)
	}
}

func isTrue(v any) bool { return v == true }

// combineProperties returns the properties of two schemas that both hold.
func combineProperties(a, b map[string]any) map[string]any {
	all := maps.Clone(a)
	for name, v := range b {
		if have, ok := all[name]; ok && !reflect.DeepEqual(have, v) {
			v = map[string]any{"allOf": []any{have, v}}
		}
		all[name] = v
	}
	return all
}

// common returns the elements that are in both lists, in the order of the first.
func common(a, b []any) (both []any) {
	in := make(map[any]bool, len(b))
	for _, v := range b {
		in[key(v)] = true
	}
	for _, v := range a {
		if in[key(v)] {
			both = append(both, v)
		}
	}
	return both
}

// commonTypes returns the types that two values of "type" have in common; nil if there
// are none. Integers are numbers.
func commonTypes(a, b []string) any {
	var names []any
	for _, x := range a {
		for _, y := range b {
			switch {
			case x == y, x == "integer" && y == "number":
				names = append(names, x)
			case x == "number" && y == "integer":
				names = append(names, y)
			}
		}
	}
	switch names, _ = unique(names); len(names) {
	case 0:
		return nil
	case 1:
		return names[0]
	}
	return names
}

// typesIn returns the types that a value of "type" allows; none if it has a name that
// JSON Schema does not know, which may mean any type.
func typesIn(v any) (names []string) {
	list, isList := v.([]any)
	if !isList {
		list = []any{v}
	}
	for _, e := range list {
		name, _ := e.(string)
		normal, known := typeNames[name]
		if !known {
			return nil
		}
		if !slices.Contains(names, normal) {
			names = append(names, normal)
		}
	}
	return names
}

// tighter sets a bound to the stricter one of two.
func tighter(flat map[string]any, keyword string, have, v any, stricter func(a, b float64) float64) bool {
	a, isNumber := have.(float64)
	b, isNumberToo := v.(float64)
	if isNumber && isNumberToo {
		flat[keyword] = stricter(a, b)
	}
	return isNumber && isNumberToo
}
