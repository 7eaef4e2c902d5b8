package params

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/nearest"
)

// maxProblems is how many problems a check finds at most.
const maxProblems = 10

// Check compares arguments, a JSON object, with the schema. It returns what is wrong, in
// words for the user; nothing if the server would probably accept them. It knows types,
// enum, required and unknown names, and bounds of numbers, texts and lists.
func (l List) Check(arguments []byte) []string {
	c := new(check)
	if text := bytes.TrimSpace(arguments); len(text) == 0 || string(text) == "null" {
		arguments = []byte("{}")
	}
	c.value("", arguments, l.root)
	return c.problems[:min(len(c.problems), maxProblems)]
}

// check is one comparison.
type check struct {
	problems []string
}

func (c *check) add(path, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if path != "" {
		text = path + " " + text
	}
	c.problems = append(c.problems, display.Line(text))
}

// value checks one value.
func (c *check) value(path string, value []byte, s *schema) {
	if len(c.problems) >= maxProblems || s.members == nil {
		return
	}
	if values := s.list("enum"); len(values) > 0 && !containsValue(values, value) {
		c.add(path, "must be one of %s, and is %s", Values(values), quote(value))
		return
	}
	if only, ok := s.members["const"]; ok && !equalValues(only, value) {
		c.add(path, "must be %s, and is %s", Values([]json.RawMessage{only}), quote(value))
		return
	}
	kind := typeOf(value)
	if names, nullable := s.ownTypes(); (len(names) > 0 || nullable) && !accepts(names, kind, value) && !(nullable && kind == "null") {
		c.add(path, "must be %s, and is %s", article(names, nullable), quote(value))
		return
	}
	c.branches(path, value, s)
	switch kind {
	case "object":
		c.object(path, value, s)
	case "array":
		var items []json.RawMessage
		_ = json.Unmarshal(value, &items) // its type was looked at
		c.length(path, len(items), "item", s, "minItems", "maxItems")
		for i, item := range items {
			c.value(fmt.Sprintf("%s[%d]", path, i), item, s.items())
		}
	case "string":
		var text string
		_ = json.Unmarshal(value, &text)
		c.length(path, utf8.RuneCountInString(text), "character", s, "minLength", "maxLength")
	case "number":
		c.bounds(path, value, s)
	}
}

// branches checks the schemas of which a value must match some.
func (c *check) branches(path string, value []byte, s *schema) {
	for _, branch := range s.schemas("allOf") {
		c.value(path, value, branch)
	}
	for _, name := range []string{"anyOf", "oneOf"} {
		all := s.schemas(name)
		if len(all) == 0 || slices.ContainsFunc(all, func(branch *schema) bool { return branch.matches(value) }) {
			continue
		}
		if values := s.allowed(); len(values) > 0 {
			c.add(path, "must be one of %s, and is %s", Values(values), quote(value))
			continue
		}
		if names, nullable := s.types(); len(names) > 0 && !accepts(names, typeOf(value), value) {
			c.add(path, "must be %s, and is %s", article(names, nullable), quote(value))
			continue
		}
		c.add(path, "matches none of the %d forms that the schema allows, and is %s", len(all), quote(value))
	}
}

// matches reports whether a value has no problem.
func (s *schema) matches(value []byte) bool {
	c := new(check)
	c.value("", value, s)
	return len(c.problems) == 0
}

// object checks the members of an object: those that are missing, unknown ones, and the
// values.
func (c *check) object(path string, value []byte, s *schema) {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(value, &members) // its type was looked at
	var names []string
	for _, p := range s.properties() {
		names = append(names, p.name)
		if member, ok := members[p.name]; ok {
			c.value(join(path, p.name), member, p.schema)
		}
	}
	for _, name := range s.required() {
		if _, ok := members[name]; !ok {
			c.add(join(path, name), "is missing")
		}
	}
	if s.isOpen() {
		return
	}
	for name := range sorted(members) {
		if !slices.Contains(names, name) {
			c.add("", "%s", unknownName(join(path, name), name, path, names))
		}
	}
}

// unknownName says that a parameter does not exist, and which names are similar.
func unknownName(whole, name, path string, names []string) string {
	text := fmt.Sprintf("%s is not a parameter", display.Line(display.Shorten(whole, 100)))
	similar := nearest.Names(name, names)
	for i := range similar {
		similar[i] = join(path, similar[i])
	}
	if len(similar) > 0 {
		text += "; did you mean " + strings.Join(similar, " or ") + "?"
	}
	return text
}

func (c *check) length(path string, n int, noun string, s *schema, least, most string) {
	if limit, ok := s.number(least); ok && float64(n) < limit {
		c.add(path, "must have at least %s, and has %d", display.Count(int(limit), noun), n)
	}
	if limit, ok := s.number(most); ok && float64(n) > limit {
		c.add(path, "must have at most %s, and has %d", display.Count(int(limit), noun), n)
	}
}

func (c *check) bounds(path string, value []byte, s *schema) {
	var n float64
	if json.Unmarshal(value, &n) != nil {
		return
	}
	for _, rule := range []struct {
		name, text string
		broken     func(limit float64) bool
	}{
		{"minimum", "at least", func(limit float64) bool { return n < limit }},
		{"maximum", "at most", func(limit float64) bool { return n > limit }},
		{"exclusiveMinimum", "more than", func(limit float64) bool { return n <= limit }},
		{"exclusiveMaximum", "less than", func(limit float64) bool { return n >= limit }},
	} {
		if limit, ok := s.number(rule.name); ok && rule.broken(limit) {
			c.add(path, "must be %s %s, and is %s", rule.text, strconv.FormatFloat(limit, 'g', -1, 64), quote(value))
		}
	}
}

// ownTypes is types without those of branches.
func (s *schema) ownTypes() (names []string, nullable bool) {
	raw, ok := s.members["type"]
	if !ok {
		return nil, false
	}
	own := schema{members: map[string]json.RawMessage{"type": raw}}
	return own.types()
}

// typeOf returns the type of a JSON value; that of an integer is "number".
func typeOf(value []byte) string {
	value = bytes.TrimSpace(value)
	if len(value) == 0 {
		return "any"
	}
	switch value[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

// accepts reports whether a value of a kind has one of the types.
func accepts(names []string, kind string, value []byte) bool {
	if slices.Contains(names, kind) {
		return true
	}
	if kind != "number" || !slices.Contains(names, "integer") {
		return false
	}
	var n float64
	return json.Unmarshal(value, &n) == nil && n == math.Trunc(n)
}

// article returns types as in "a string or null".
func article(names []string, nullable bool) string {
	all := make([]string, 0, len(names)+1)
	for _, name := range names {
		one := "a " + name
		if strings.ContainsAny(name[:min(1, len(name))], "aio") {
			one = "an " + name
		}
		all = append(all, one)
	}
	if nullable {
		all = append(all, "null")
	}
	return display.Line(strings.Join(all, " or "))
}

// quote shows a value in a message.
func quote(value []byte) string {
	return display.Line(display.Shorten(string(bytes.TrimSpace(value)), 100))
}

// Values returns values as a list; texts are without quotes.
func Values(values []json.RawMessage) string {
	all := make([]string, len(values))
	for i, value := range values {
		all[i] = Plain(value)
	}
	return display.Line(strings.Join(all, ", "))
}

// Plain returns a value as the user writes it: a text without quotes.
func Plain(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil && text != "" {
		return text
	}
	return string(bytes.TrimSpace(value))
}

func containsValue(values []json.RawMessage, value []byte) bool {
	return slices.ContainsFunc(values, func(one json.RawMessage) bool { return equalValues(one, value) })
}

// equalValues compares two JSON values.
func equalValues(a, b []byte) bool {
	var one, two any
	if json.Unmarshal(a, &one) != nil || json.Unmarshal(b, &two) != nil {
		return false
	}
	x, err := json.Marshal(one)
	if err != nil {
		return false
	}
	y, err := json.Marshal(two)
	return err == nil && bytes.Equal(x, y)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
