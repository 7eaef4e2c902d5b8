package argcheck

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mcpvisor/mcpvisor/internal/nearest"
)

// Violation says which argument breaks which rule. It contains no values: they may be
// secret.
type Violation struct {
	// Path is the argument, as in "filters[0].name"; "" is all arguments together.
	Path string
	// Rule is the keyword of JSON Schema, as in "type".
	Rule string
	// Reason is what is wrong.
	Reason string
	// Similar are names of parameters that an unknown name may mean.
	Similar []string
}

// diagnosis finds the rule that a value breaks. The validator has decided that it breaks
// one; its own words contain values.
type diagnosis struct {
	root     any
	steps    int
	patterns map[string]*regexp.Regexp // those compiled so far
}

// find returns the first violation in a value; nil if it sees none.
func (d *diagnosis) find(schema, value any, at string, depth int) *Violation {
	m, ok := schema.(map[string]any)
	if d.steps++; !ok || depth > maxDepth || d.steps > maxSteps {
		return nil
	}
	if ref, ok := m["$ref"].(string); ok {
		if v := d.find(find(d.root, ref), value, at, depth+1); v != nil {
			return v
		}
	}
	broken := func(rule, format string, args ...any) *Violation {
		return &Violation{Path: at, Rule: rule, Reason: fmt.Sprintf(format, args...)}
	}
	if names := typeNames(m["type"]); len(names) > 0 && !hasType(value, names) {
		return broken("type", "it must be %s, and is %s", strings.Join(names, " or "), typeOf(value))
	}
	if list, ok := m["enum"].([]any); ok && !slices.ContainsFunc(list, func(e any) bool { return reflect.DeepEqual(e, value) }) {
		return broken("enum", "it must be one of %s", listed(list))
	}
	if v, ok := m["const"]; ok && !reflect.DeepEqual(v, value) {
		return broken("const", "it must be %s", listed([]any{v}))
	}
	if rule, reason := d.brokenBound(m, value); rule != "" {
		return broken(rule, "%s", reason)
	}
	switch value := value.(type) {
	case map[string]any:
		if v := d.inObject(m, value, at, depth+1); v != nil {
			return v
		}
	case []any:
		prefix, _ := m["prefixItems"].([]any)
		for i, e := range value {
			s := m["items"] // of the items after those that have a schema each
			if i < len(prefix) {
				s = prefix[i]
			}
			if v := d.find(s, e, at+"["+strconv.Itoa(i)+"]", depth+1); v != nil {
				return v
			}
		}
	}
	all, _ := m["allOf"].([]any)
	for _, part := range all {
		if v := d.find(part, value, at, depth+1); v != nil {
			return v
		}
	}
	for _, rule := range []string{"anyOf", "oneOf"} {
		list, _ := m[rule].([]any)
		matching := slices.IndexFunc(list, func(s any) bool { return d.find(s, value, at, depth+1) == nil })
		if len(list) > 0 && matching < 0 {
			return broken(rule, "it matches none of the %d alternatives", len(list))
		}
	}
	return nil
}

func (d *diagnosis) inObject(m, object map[string]any, at string, depth int) *Violation {
	properties, _ := m["properties"].(map[string]any)
	names := slices.Sorted(maps.Keys(object))
	schemas := map[string][]any{} // that apply to the value of a name
	var unknown []string
	for _, name := range names {
		if s, known := properties[name]; known {
			schemas[name] = []any{s}
		}
		schemas[name] = append(schemas[name], d.patternSchemas(m, name)...)
		if len(schemas[name]) == 0 {
			unknown, schemas[name] = append(unknown, name), []any{m["additionalProperties"]}
		}
	}
	required, _ := m["required"].([]any)
	for _, e := range required {
		name, _ := e.(string)
		if _, has := object[name]; has {
			continue
		}
		v := &Violation{Path: join(at, name), Rule: "required", Reason: "it is missing"}
		if len(nearest.Names(name, unknown)) > 0 {
			v.Reason = fmt.Sprintf("it is missing; %.60q is no parameter", nearest.Names(name, unknown)[0])
			v.Similar = []string{name}
		}
		return v
	}
	if m["additionalProperties"] == false && len(unknown) > 0 {
		v := &Violation{Path: join(at, unknown[0]), Rule: "additionalProperties", Reason: "there is no such parameter"}
		v.Similar = nearest.Names(unknown[0], slices.Sorted(maps.Keys(properties)))
		return v
	}
	for _, name := range names {
		for _, s := range schemas[name] {
			if v := d.find(s, object[name], join(at, name), depth); v != nil {
				return v
			}
		}
	}
	return nil
}

// patternSchemas returns the schemas of the patterns that a name matches.
func (d *diagnosis) patternSchemas(m map[string]any, name string) (matching []any) {
	patterns, _ := m["patternProperties"].(map[string]any)
	for _, p := range slices.Sorted(maps.Keys(patterns)) {
		if d.matches(p, name) {
			matching = append(matching, patterns[p])
		}
	}
	return matching
}

// matches reports whether a text matches a pattern, which is valid.
func (d *diagnosis) matches(pattern, text string) bool {
	re := d.patterns[pattern]
	if re == nil {
		re = regexp.MustCompile(pattern)
		d.patterns[pattern] = re
	}
	return re.MatchString(text)
}

// maxNameBytes bounds a name in a path: the caller may have made it up.
const maxNameBytes = 100

func join(at, name string) string {
	if len(name) > maxNameBytes {
		name = strings.ToValidUTF8(name[:maxNameBytes], "") + "…"
	}
	if at == "" {
		return name
	}
	return at + "." + name
}

// brokenBound returns the bound of a number, a text or a list that a value breaks.
func (d *diagnosis) brokenBound(m map[string]any, value any) (rule, reason string) {
	limit := func(keyword string) (float64, bool) { n, ok := m[keyword].(float64); return n, ok }
	bounds := func(n float64, low, high, what string) (string, string) {
		if b, ok := limit(low); ok && n < b {
			return low, fmt.Sprintf("%s must be %v or more", what, b)
		}
		if b, ok := limit(high); ok && n > b {
			return high, fmt.Sprintf("%s must be %v or less", what, b)
		}
		return "", ""
	}
	switch value := value.(type) {
	case float64:
		if b, ok := limit("exclusiveMinimum"); ok && value <= b {
			return "exclusiveMinimum", fmt.Sprintf("it must be more than %v", b)
		}
		if b, ok := limit("exclusiveMaximum"); ok && value >= b {
			return "exclusiveMaximum", fmt.Sprintf("it must be less than %v", b)
		}
		if b, ok := limit("multipleOf"); ok && math.Mod(value, b) != 0 {
			return "multipleOf", fmt.Sprintf("it must be a multiple of %v", b)
		}
		return bounds(value, "minimum", "maximum", "it")
	case string:
		if p, ok := m["pattern"].(string); ok && !d.matches(p, value) {
			if original, ok := m["$comment"].(string); ok {
				p = original
			}
			return "pattern", fmt.Sprintf("it does not match %.200q", p)
		}
		return bounds(float64(utf8.RuneCountInString(value)), "minLength", "maxLength", "its length")
	case []any:
		return bounds(float64(len(value)), "minItems", "maxItems", "the number of its items")
	case map[string]any:
		return bounds(float64(len(value)), "minProperties", "maxProperties", "the number of its properties")
	}
	return "", ""
}

func typeNames(v any) (names []string) {
	switch t := v.(type) {
	case string:
		return []string{t}
	case []any:
		for _, e := range t {
			if name, ok := e.(string); ok {
				names = append(names, name)
			}
		}
	}
	return names
}

func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case float64:
		if v == math.Trunc(v) {
			return "integer"
		}
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}

func hasType(v any, names []string) bool {
	t := typeOf(v)
	return slices.Contains(names, t) || t == "integer" && slices.Contains(names, "number")
}

// maxListedBytes bounds the values of an enum in an error.
const maxListedBytes = 200

// listed writes the values of a schema, which are no secrets.
func listed(values []any) string {
	var texts []string
	n := 0
	for i, v := range values {
		text, _ := json.Marshal(v)
		if n += len(text); n > maxListedBytes && i > 0 {
			return strings.Join(texts, ", ") + fmt.Sprintf(" and %d more", len(values)-i)
		}
		texts = append(texts, fmt.Sprintf("%.200s", text))
	}
	return strings.Join(texts, ", ")
}
