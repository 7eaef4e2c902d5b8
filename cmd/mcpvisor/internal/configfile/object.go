package configfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Member is one member of an [Object].
type Member struct {
	Key string
	// Value is an Object, or what encoding/json encodes.
	Value any
}

// Object is a JSON object whose members keep their order.
type Object []Member //nolint:recvcheck // Set changes it

// Get returns the value of a key, or nil.
func (o Object) Get(key string) any {
	for _, m := range o {
		if m.Key == key {
			return m.Value
		}
	}
	return nil
}

// Set sets the value of a key. A new key comes last.
func (o *Object) Set(key string, value any) {
	for i := range *o {
		if (*o)[i].Key == key {
			(*o)[i].Value = value
			return
		}
	}
	*o = append(*o, Member{key, value})
}

func (o Object) MarshalJSON() ([]byte, error) {
	text, err := o.render("", "")
	return []byte(text), err
}

// maxListLength is the longest list that is written on one line, in characters.
const maxListLength = 100

// render writes a value for a file in which its line begins with indent. Objects have a
// line for each member, lists are on one line. Without unit everything is on one line.
func (o Object) render(indent, unit string) (string, error) {
	if len(o) == 0 {
		return "{}", nil
	}
	var b strings.Builder
	b.WriteString("{")
	inner := indent + unit
	for i, m := range o {
		if i > 0 {
			b.WriteString(",")
		}
		switch {
		case unit != "":
			b.WriteString("\n" + inner)
		case i > 0:
			b.WriteString(" ")
		}
		name, err := encode(m.Key)
		if err != nil {
			return "", err
		}
		value, err := renderValue(m.Value, inner, unit)
		if err != nil {
			return "", err
		}
		b.WriteString(name + ": " + value)
	}
	if unit != "" {
		b.WriteString("\n" + indent)
	}
	b.WriteString("}")
	return b.String(), nil
}

func renderValue(v any, indent, unit string) (string, error) {
	switch v := v.(type) {
	case Object:
		return v.render(indent, unit)
	case []string:
		return renderList(v, indent, unit)
	case []any:
		return renderList(v, indent, unit)
	}
	return encode(v)
}

func renderList[T any](list []T, indent, unit string) (string, error) {
	length := 0
	parts := make([]string, len(list))
	for i, v := range list {
		text, err := renderValue(v, "", "") // an element is on one line
		if err != nil {
			return "", err
		}
		length += len(text) + len(", ")
		parts[i] = text
	}
	if unit == "" || length <= maxListLength {
		return "[" + strings.Join(parts, ", ") + "]", nil
	}
	line := "\n" + indent + unit
	return "[" + line + strings.Join(parts, ","+line) + "\n" + indent + "]", nil
}

// encode is json.Marshal without escapes for HTML.
func encode(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", fmt.Errorf("writing JSON: %w", err)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}
