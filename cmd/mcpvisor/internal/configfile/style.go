package configfile

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/tailscale/hujson"
)

// style is how a file is formatted. What is added looks the same.
type style struct {
	newline string // "\n" or "\r\n"
	unit    string // one step of indentation
}

// styleOf reads the style from the first indented line of a text.
func styleOf(data []byte) style {
	s := style{newline: "\n", unit: "  "}
	if bytes.Contains(data, []byte("\r\n")) {
		s.newline = "\r\n"
	}
	for line := range bytes.Lines(data) {
		text := bytes.TrimLeft(line, " \t")
		if indent := line[:len(line)-len(text)]; len(indent) > 0 && bytes.IndexAny(text, `"/`) == 0 {
			s.unit = string(indent)
			break
		}
	}
	return s
}

// indentOf returns the whitespace at the start of the line that an extra ends in. Comments
// are no part of it, and lines within block comments do not count.
func indentOf(extra hujson.Extra) string {
	var line hujson.Extra
	for _, rest := splitLine(extra); rest != nil; _, rest = splitLine(line) {
		line = rest[bytes.IndexByte(rest, '\n')+1:]
	}
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// add adds a member at the end of an object. A comment behind the last member stays there.
func (s style) add(l *list, name string, value any) error {
	object := l.object
	inline, indent, trailing := false, l.indent+s.unit, false
	if n := len(object.Members); n > 0 {
		first := object.Members[0].Name.BeforeExtra
		inline = !bytes.Contains(first, []byte("\n")) && !bytes.Contains(object.AfterExtra, []byte("\n"))
		if !inline && bytes.Contains(first, []byte("\n")) {
			indent = indentOf(first)
		}
		trailing = object.Members[n-1].Value.AfterExtra != nil
	}
	if inline {
		indent = ""
	}
	parsed, err := s.parse(value, indent, inline)
	if err != nil {
		return err
	}
	key, err := encode(name)
	if err != nil {
		return err
	}
	m := hujson.ObjectMember{
		Name:  hujson.Value{Value: hujson.Literal(key), BeforeExtra: s.before(object.AfterExtra, indent, inline)},
		Value: hujson.Value{Value: parsed, BeforeExtra: hujson.Extra(" ")},
	}
	if !inline {
		object.AfterExtra = hujson.Extra(s.newline + l.indent)
	} else {
		object.AfterExtra = nil
	}
	if trailing {
		m.Value.AfterExtra = hujson.Extra{}
	}
	object.Members = append(object.Members, m)
	return nil
}

// append adds an element at the end of an array, on a line of its own if the array has
// several lines.
func (s style) append(array *hujson.Array, value any) error {
	inline := !bytes.Contains(array.AfterExtra, []byte("\n"))
	indent, trailing := "", false
	if n := len(array.Elements); n > 0 {
		indent, trailing = indentOf(array.Elements[0].BeforeExtra), array.Elements[n-1].AfterExtra != nil
	}
	parsed, err := s.parse(value, indent, true)
	if err != nil {
		return err
	}
	end := array.AfterExtra
	v := hujson.Value{Value: parsed, BeforeExtra: s.before(end, indent, inline)}
	if !inline {
		array.AfterExtra = hujson.Extra(s.newline + indentOf(end))
	} else {
		array.AfterExtra = nil
	}
	if trailing {
		v.AfterExtra = hujson.Extra{}
	}
	array.Elements = append(array.Elements, v)
	return nil
}

// before returns the extra before a new last element, from the extra that was last.
func (s style) before(last hujson.Extra, indent string, inline bool) hujson.Extra {
	kept := bytes.TrimRight(last, " \t\r\n")
	if inline {
		return append(bytes.Clone(kept), ' ')
	}
	return append(bytes.Clone(kept), s.newline+indent...)
}

func (s style) replace(l *list, i int, value any) error {
	m := &l.object.Members[i]
	inline := !bytes.Contains(m.Name.BeforeExtra, []byte("\n"))
	parsed, err := s.parse(value, indentOf(m.Name.BeforeExtra), inline)
	if err == nil {
		m.Value.Value = parsed
	}
	return err
}

// parse renders a value in the style of the file.
func (s style) parse(value any, indent string, inline bool) (hujson.ValueTrimmed, error) {
	unit := s.unit
	if inline {
		unit = ""
	}
	text, err := renderValue(value, indent, unit)
	if err != nil {
		return nil, err
	}
	v, err := hujson.Parse([]byte(strings.ReplaceAll(text, "\n", s.newline)))
	if err != nil {
		return nil, fmt.Errorf("the new text is not valid JSON: %w", err)
	}
	return v.Value, nil
}

// remove removes a member. Comments above it and behind it go with it; a comment behind
// the member before it stays.
func remove(object *hujson.Object, i int) {
	removed := object.Members[i]
	before, own := splitLine(removed.Name.BeforeExtra)
	next := &object.AfterExtra
	if i+1 < len(object.Members) {
		next = &object.Members[i+1].Name.BeforeExtra
	}
	behind, after := splitLine(*next)
	if after == nil && len(bytes.TrimSpace(behind)) == 0 { // the next one is on the same line
		switch {
		case i+1 < len(object.Members):
			before, own = removed.Name.BeforeExtra, nil
		case len(bytes.TrimSpace(before)) == 0:
			before = behind
		}
	}
	if after == nil && own != nil && bytes.Contains(before, []byte("//")) {
		after = hujson.Extra("\n") // it ends the comment
	}
	*next = append(bytes.Clone(before), after...)
	object.Members = append(object.Members[:i], object.Members[i+1:]...)
	if i == 0 || i < len(object.Members) {
		return
	}
	last := &object.Members[i-1].Value
	if removed.Value.AfterExtra != nil { // a trailing comma stays one
		last.AfterExtra = append(hujson.Extra{}, last.AfterExtra...)
		return
	}
	object.AfterExtra = append(bytes.Clone(last.AfterExtra), object.AfterExtra...)
	last.AfterExtra = nil
}

// splitLine splits an extra before the first line break outside of block comments. rest is
// nil without one.
func splitLine(extra hujson.Extra) (line, rest hujson.Extra) {
	for i := 0; i < len(extra); i++ {
		switch {
		case extra[i] == '\n':
			if i > 0 && extra[i-1] == '\r' {
				i--
			}
			return extra[:i], extra[i:]
		case bytes.HasPrefix(extra[i:], []byte("/*")):
			i += 2 + max(0, bytes.Index(extra[i+2:], []byte("*/"))) + 1
		case bytes.HasPrefix(extra[i:], []byte("//")):
			i += max(0, bytes.IndexByte(extra[i:], '\n')-1)
		}
	}
	return extra, nil
}
