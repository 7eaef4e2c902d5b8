package params

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/nearest"
)

// step leads from a value to a part of it: to a member of an object, or to an item of a list.
type step struct {
	name   string // of the member, or the number of the item
	isItem bool
}

// locate finds what a word sets by its name: a parameter, or a part of one, as customer.name and lines[0].sku. The
// longest name that the schema declares counts, so customer.name is a parameter if there is one of that name.
func (l List) locate(name string) ([]step, Param, error) {
	head, rest := cutMember(name, func(name string) bool { _, known := l.find(name); return known })
	switch param, _ := l.find(head); {
	case head != "" && rest == "":
		return []step{{name: head}}, param, nil
	case head != "":
		if param.schema.root != nil {
			param.schema.root.unread = maxRead // each word may read as much as New
		}
		return param.schema.locate(head, rest)
	case !l.root.fields().isOpen() || strings.Contains(name, "["):
		return nil, Param{}, unknownName("", name, l.Names())
	}
	return []step{{name: name}}, Param{}, nil
}

// locate finds a part of the parameter with the name head and the schema s.
func (s *schema) locate(head, rest string) ([]step, Param, error) {
	steps := []step{{name: head}}
	for rest != "" {
		whole := head + rest
		number, after, isItem := strings.Cut(strings.TrimPrefix(rest, "["), "]")
		if isItem = isItem && rest[0] == '['; isItem && s.mayBe("array") {
			s, steps, head, rest = s.items(), append(steps, step{number, true}), head+"["+number+"]", after
			continue
		}
		texts := map[string]json.RawMessage{} // of the members
		s.addMembers(texts)
		name, after := cutMember(rest[1:], func(name string) bool { _, known := texts[name]; return known })
		part := s.sub(texts[name])
		switch {
		case rest[0] != '.' || !s.mayBe("object"):
			return nil, Param{}, unknownName("", whole, nil)
		case name == "" && (!s.fields().isOpen() || rest == "." || strings.ContainsAny(rest[1:], ".[")): // a name with a dot, or two names?
			return nil, Param{}, unknownName(head+".", rest[1:], s.fields().names())
		case name == "":
			name, after, part = rest[1:], "", s.sub(s.fields().members["additionalProperties"])
		}
		s, steps, head, rest = part, append(steps, step{name: name}), head+"."+name, after
	}
	return steps, Param{Name: head, Enum: s.allowed(), schema: s}, nil
}

// cutMember returns the longest beginning of a name that is a member, and what follows it.
func cutMember(name string, isMember func(string) bool) (member, rest string) {
	for end := len(name); end > 0; end = strings.LastIndexAny(name[:end], ".[") {
		if isMember(name[:end]) {
			return name[:end], name[end:]
		}
	}
	return "", ""
}

// mayBe reports whether the schema allows values of a type.
func (s *schema) mayBe(kind string) bool {
	names, _ := s.types()
	return len(names) == 0 || slices.Contains(names, kind)
}

// addMembers adds the schemas of the members that s or its branches declare. The first one of a name counts.
func (s *schema) addMembers(texts map[string]json.RawMessage) {
	var properties map[string]json.RawMessage
	_ = json.Unmarshal(s.members["properties"], &properties) // none if they are no object
	for name, text := range properties {
		if _, known := texts[name]; !known {
			texts[name] = text
		}
	}
	for _, branch := range s.branches() {
		branch.addMembers(texts)
	}
}

func (s *schema) names() (names []string) {
	for _, p := range s.properties() {
		names = append(names, p.name)
	}
	return names
}

// unknownName says that an object has no member of a name, and which names are similar. within is the name of the object,
// with a dot.
func unknownName(within, name string, names []string) error {
	similar := nearest.Names(name, names)
	if end := strings.IndexAny(name, ".["); len(similar) == 0 && end > 0 {
		if similar = nearest.Names(name[:end], names); len(similar) > 0 {
			name = name[:end]
		}
	}
	text := within + display.Shorten(name, 100) + " is not a parameter"
	if len(similar) > 0 {
		text += "; did you mean " + within + strings.Join(similar, " or "+within) + "?"
	}
	return errors.New(display.Line(text))
}

// node is a value that words make: the value of one word, or an object or a list of nodes.
type node struct {
	word   string          // the name of the first word that is about it
	value  json.RawMessage // nil while it has no value, or parts
	parts  map[string]*node
	order  []string // the names of the parts
	isList bool
}

// set sets the part of n to which the steps lead. A second list is appended to the first one.
func (n *node) set(steps []step, word string, value json.RawMessage) error {
	switch {
	case len(steps) == 0 && n.value == nil && n.parts == nil:
		n.value = value
		return nil
	case len(steps) == 0 && typeOf(n.value) == "array" && typeOf(value) == "array":
		n.value = concat(n.value, value)
		return nil
	case n.word == word && n.value != nil:
		return fmt.Errorf("%s is given twice; leave one out", word)
	case len(steps) == 0 || n.value != nil || n.parts != nil && n.isList != steps[0].isItem:
		return fmt.Errorf("%s and %s contradict each other; leave one out", n.word, word)
	case n.parts == nil:
		n.parts, n.isList = map[string]*node{}, steps[0].isItem
	}
	part := n.parts[steps[0].name]
	if part == nil {
		part = &node{word: word}
		n.parts[steps[0].name] = part
		n.order = append(n.order, steps[0].name)
	}
	return part.set(steps[1:], word, value)
}

// json returns the value of n. Objects have the order of the words.
func (n *node) json() (json.RawMessage, error) {
	if n.parts == nil {
		return n.value, nil
	}
	values := map[string]json.RawMessage{}
	for i, name := range n.order {
		part := n.parts[name]
		if number := strconv.Itoa(i); n.isList && n.parts[number] == nil {
			return nil, fmt.Errorf("the list of %s lacks item [%s]; number its items from [0]", n.word, number)
		} else if n.isList {
			name, part = number, n.parts[number]
		}
		value, err := part.json()
		if err != nil {
			return nil, err
		}
		values[name] = value
	}
	if !n.isList {
		return Object(n.order, values), nil
	}
	items := make([][]byte, len(n.order))
	for i := range items {
		items[i] = values[strconv.Itoa(i)]
	}
	return slices.Concat([]byte("["), bytes.Join(items, []byte(",")), []byte("]")), nil
}
