package params

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/secret"
)

// pair matches a word that sets one parameter, or a part of one.
var pair = regexp.MustCompile(`^((?:[^\s={}\[\]"':]|\[\d+\])+|(?:[^\s={}\[\]"']|\[\d+\])+?)(:?)=((?s).*)$`)

// IsPair reports whether a word is key=value or key:=json.
func IsPair(word string) bool { return pair.MatchString(word) }

// NeedsType reports whether the value of a word depends on the schema, as that of key=value.
func NeedsType(word string) bool {
	parts := pair.FindStringSubmatch(word)
	return parts != nil && parts[2] == ""
}

// Like returns parameters of the types that the values of earlier arguments have, a JSON object in which
// *** replaces secrets. So the same words make the same arguments. A value that holds a secret has the type of l.
func (l List) Like(arguments json.RawMessage) List {
	like := List{root: new(schema)}
	var members map[string]json.RawMessage
	_ = json.Unmarshal(arguments, &members) // nil if none were kept
	for name, value := range members {
		param, known := l.find(name)
		if !known || !bytes.Contains(value, []byte(secret.Mask)) {
			param = Param{Name: name, schema: newSchema(typeLike([]json.RawMessage{value}, maxDepth))}
		}
		like.Params = append(like.Params, param)
	}
	return like
}

// typeLike returns a schema of the values' types. Items of lists, and members of one name in items, are alike.
func typeLike(values []json.RawMessage, depth int) []byte {
	var kinds []string
	var items []json.RawMessage
	members := map[string][]json.RawMessage{}
	for _, value := range values {
		if kind := typeOf(value); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
		var of []json.RawMessage
		_ = json.Unmarshal(value, &of) // none of what is no list
		items = append(items, of...)
		var named map[string]json.RawMessage
		_ = json.Unmarshal(value, &named) // none of what is no object
		for name, member := range named {
			members[name] = append(members[name], member)
		}
	}
	if len(kinds) == 1 && kinds[0] == "null" {
		return []byte(`{"enum":[null]}`)
	}
	like := []byte(`{"type":["` + strings.Join(kinds, `","`) + `"]`)
	if len(items) > 0 && depth > 0 {
		like = slices.Concat(like, []byte(`,"items":`), typeLike(items, depth-1))
	}
	if len(members) > 0 && depth > 0 {
		properties := map[string]json.RawMessage{}
		for name, values := range members {
			properties[name] = typeLike(values, depth-1)
		}
		like = slices.Concat(like, []byte(`,"properties":`), Object(slices.Collect(maps.Keys(properties)), properties))
	}
	return append(like, '}')
}

// Parse makes arguments, a JSON object, of words:
//
//	key=value   a value of the type that the schema declares; the same key again adds an
//	            item to a list
//	key:=json   JSON text
//	key=@file   the content of a file; so does key:=@file
//
// A key is the name of a parameter, or leads to a part of one: customer.name to a member of an object, and lines[0].sku
// to one of an item of a list.
// A name that the tool does not have, or a value of another type, is an error.
func (l List) Parse(words []string) (json.RawMessage, error) {
	all := node{parts: map[string]*node{}}
	for _, word := range words {
		parts := pair.FindStringSubmatch(word)
		if parts == nil {
			return nil, fmt.Errorf("argument %q is not key=value; write for instance path=/tmp or limit:=3", word)
		}
		name, text := parts[1], parts[3]
		steps, param, err := l.locate(name)
		if err != nil {
			return nil, err
		}
		if file, ok := strings.CutPrefix(text, "@"); ok {
			content, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("the value of %s cannot be read: %w; write %s:='\"@…\"' for a text that begins with @", name, err, name)
			}
			text = string(content)
		}
		if !utf8.ValidString(text) { // JSON would replace what is not UTF-8
			return nil, fmt.Errorf("the value of %s is not UTF-8, and JSON cannot hold it; encode it, for instance as base64, if the tool takes that", name)
		}
		value, err := param.value(name, text, parts[2] != "")
		if err != nil {
			return nil, err
		}
		if err := all.set(steps, name, value); err != nil {
			return nil, err
		}
	}
	return all.json()
}

func (p Param) value(name, text string, isJSON bool) (json.RawMessage, error) {
	if isJSON {
		if !json.Valid([]byte(text)) {
			return nil, fmt.Errorf("the value of %s is not valid JSON: %s; write %s=… for plain text", name, quote([]byte(text)), name)
		}
		return json.RawMessage(text), nil
	}
	if p.schema == nil {
		return marshal(text), nil
	}
	value, ok := p.schema.read(text)
	if !ok {
		return nil, fmt.Errorf("%s must be %s, and is %s; write for instance %s", name, p.wants(), quote(marshal(text)), p.Example())
	}
	return value, nil
}

func (p Param) wants() string {
	if len(p.Enum) > 0 {
		return "one of " + display.Shorten(Values(p.Enum), 1000)
	}
	return article(p.schema.types())
}

// Example returns a word that sets the parameter, quoted for a shell.
func (p Param) Example() string {
	names, _ := p.schema.types()
	kind := "string"
	if len(names) > 0 {
		kind = names[0]
	}
	sign, value := "=", "…"
	switch {
	case len(p.Enum) > 0:
		value = Plain(p.Enum[0])
	case kind == "integer":
		value = "3"
	case kind == "number":
		value = "0.5"
	case kind == "boolean":
		value = "true"
	case kind == "array", kind == "object":
		sign, value = ":=", p.schema.sample(sampleLevels)
	}
	name, value := display.Line(p.Name)+sign, display.Line(value)
	if plaintext.ShellWord(name) != name {
		return plaintext.ShellWord(name + value)
	}
	return name + plaintext.ShellWord(value)
}

const (
	// sampleLevels is how deep lists and objects of an example are nested.
	sampleLevels = 3
	// maxSampleFields is how many optional fields an example has.
	maxSampleFields = 2
)

// sample returns a short value of the schema's type, as JSON text.
func (s *schema) sample(levels int) string {
	if values := s.allowed(); len(values) > 0 {
		return string(values[0])
	}
	kind := ""
	if names, _ := s.types(); len(names) > 0 {
		kind = names[0]
	}
	switch {
	case kind == "integer":
		return "1"
	case kind == "number":
		return "0.5"
	case kind == "boolean":
		return "true"
	case kind == "array" && levels > 0:
		return "[" + s.items().sample(levels-1) + "]"
	case kind == "object" && levels > 0:
		return s.sampleObject(levels)
	}
	return `"…"`
}

// sampleObject returns an object with the required fields, or with a few if none is required.
func (s *schema) sampleObject(levels int) string {
	fields := s.fields()
	required := fields.required()
	var members []string
	for _, f := range fields.properties() {
		if slices.Contains(required, f.name) || len(required) == 0 && len(members) < maxSampleFields {
			members = append(members, string(marshal(f.name))+":"+f.schema.sample(levels-1))
		}
	}
	if len(members) == 0 {
		return `{"…": "…"}`
	}
	return "{" + strings.Join(members, ",") + "}"
}

// read makes a value of the schema's type of a text. A text is preferred if several types
// are possible.
func (s *schema) read(text string) (json.RawMessage, bool) {
	if values := s.allowed(); len(values) > 0 {
		for _, value := range values {
			if Plain(value) == text || string(bytes.TrimSpace(value)) == text {
				return value, true
			}
		}
		return nil, false
	}
	names, nullable := s.types()
	if len(names) == 0 || slices.Contains(names, "string") {
		return marshal(text), true
	}
	trimmed := strings.TrimSpace(text)
	valid := json.Valid([]byte(trimmed))
	for _, name := range names {
		switch name {
		case "integer", "number":
			if _, err := strconv.ParseFloat(trimmed, 64); err == nil && valid && accepts(names, "number", []byte(trimmed)) {
				return json.RawMessage(trimmed), true
			}
		case "boolean":
			if trimmed == "true" || trimmed == "false" {
				return json.RawMessage(trimmed), true
			}
		case "object":
			if valid && typeOf([]byte(trimmed)) == "object" {
				return json.RawMessage(trimmed), true
			}
		case "array":
			if valid && typeOf([]byte(trimmed)) == "array" {
				return json.RawMessage(trimmed), true
			}
			if item, ok := s.items().read(text); ok {
				return slices.Concat(json.RawMessage("["), item, json.RawMessage("]")), true
			}
		}
	}
	if nullable && trimmed == "null" {
		return json.RawMessage("null"), true
	}
	return nil, false
}

// concat joins two JSON arrays.
func concat(a, b json.RawMessage) json.RawMessage {
	a, b = bytes.TrimSpace(a), bytes.TrimSpace(b)
	first, second := bytes.TrimSpace(a[1:len(a)-1]), bytes.TrimSpace(b[1:len(b)-1])
	separator := []byte(",")
	if len(first) == 0 || len(second) == 0 {
		separator = nil
	}
	return slices.Concat([]byte("["), first, separator, second, []byte("]"))
}

// Object writes an object with its members in an order.
func Object(order []string, members map[string]json.RawMessage) json.RawMessage {
	b := []byte("{")
	for i, name := range order {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, marshal(name)...), ':'), members[name]...)
	}
	return append(b, '}')
}

func marshal(text string) json.RawMessage {
	data, err := json.Marshal(text)
	if err != nil { // a text can always be encoded
		return json.RawMessage(`""`)
	}
	return data
}
