package jsonscan

import (
	"bytes"
	"encoding/json"
)

// Edit replaces values of a valid JSON object or array by those that edit returns for them, and removes a member or an
// item for which it returns nil. Items of an array have no name. All other bytes are kept. If edit returns each value as
// it is, so does Edit, and it does with any other text.
func Edit(text []byte, edit func(name string, value []byte) []byte) []byte {
	var b []byte
	copied := 0 // bytes of text that b has, or that were replaced
	s := Scanner{Text: text}
	s.SkipSpace()
	isArray := s.Consume('[')
	if !isArray && !s.Consume('{') {
		return text
	}
	for s.SkipSpace(); !s.Consume('}') && !s.Consume(']'); s.SkipSpace() {
		start, name := s.Pos, ""
		if !isArray {
			quoted, escaped, ok := s.MemberName()
			if !ok {
				return text
			}
			name = UnquoteShared(quoted, escaped)
			s.SkipSpace()
		}
		at := s.Pos
		value, ok := s.Value()
		if !ok {
			return text
		}
		made, end := edit(name, value), s.Pos
		s.SkipSpace()
		more := s.Consume(',')
		if len(made) > 0 && &made[0] == &value[0] {
			continue
		}
		if copied == 0 {
			b = make([]byte, 0, len(text)+len(made))
		}
		switch {
		case made == nil && more:
			b = append(b, text[copied:start]...)
			copied = s.Pos
		case made == nil: // the last one: the comma before it goes, too
			b = append(b, text[copied:start]...)
			b = bytes.TrimSuffix(bytes.TrimRight(b, " \t\r\n"), []byte(","))
			copied = end
		default:
			b = append(append(b, text[copied:at]...), made...)
			copied = end
		}
	}
	if copied == 0 {
		return text
	}
	return append(b, text[copied:]...)
}

// ReplaceMember replaces the value of a member in a valid JSON object that has it. All other bytes are kept.
func ReplaceMember(object []byte, name string, value []byte) []byte {
	return Edit(object, func(member string, old []byte) []byte {
		if member == name {
			return value
		}
		return old
	})
}

// OneLine replaces line breaks in JSON text by spaces: messages "MUST NOT contain embedded
// newlines" (MCP, transports, stdio). Valid JSON has line breaks between tokens only, so
// its meaning does not change. Invalid JSON becomes one line as well. The separators U+2028
// and U+2029, which valid JSON has in strings only, are escaped: some servers end a line
// there. The argument is not changed.
func OneLine(text []byte) []byte {
	separated := bytes.IndexByte(text, lineSeparator[0]) >= 0 &&
		(bytes.Contains(text, lineSeparator) || bytes.Contains(text, paragraphSeparator))
	if !separated && bytes.IndexByte(text, '\n') < 0 && bytes.IndexByte(text, '\r') < 0 {
		return text
	}
	line := bytes.Clone(text)
	for i, c := range line {
		if c == '\n' || c == '\r' {
			line[i] = ' '
		}
	}
	if separated {
		line = bytes.ReplaceAll(line, lineSeparator, []byte(`\u2028`))
		line = bytes.ReplaceAll(line, paragraphSeparator, []byte(`\u2029`))
	}
	return line
}

// The separators U+2028 and U+2029. Both begin with the same byte.
var lineSeparator, paragraphSeparator = []byte("\u2028"), []byte("\u2029")

// Object is the text of a JSON object that is being made. The zero value has no member.
type Object struct{ text []byte }

// OpenObject continues a complete object. It reuses the memory of made.
func OpenObject(made []byte) Object {
	made = bytes.TrimSpace(made)
	return Object{bytes.TrimSpace(made[:len(made)-1])}
}

// Add appends a member.
func (o *Object) Add(name string, value []byte) {
	switch len(o.text) {
	case 0:
		o.text = append(o.text, '{')
	case 1: // OpenObject of an empty one
	default:
		o.text = append(o.text, ',')
	}
	o.text = append(append(append(o.text, Quote(name)...), ':'), value...)
}

// AddAll appends the members of another object.
func (o *Object) AddAll(other Object) {
	if len(other.text) > 1 {
		o.text = append(append(o.text, ','), other.text[1:]...)
	}
}

// Close returns the complete object.
func (o *Object) Close() json.RawMessage {
	if len(o.text) == 0 {
		return json.RawMessage("{}")
	}
	return append(o.text, '}')
}

// Quote returns a text as a JSON string.
func Quote(text string) []byte {
	b, _ := json.Marshal(text) // a string always marshals
	return b
}
