// Package configfile edits configuration files in place: comments, order and formatting of
// everything else stay, and a file is replaced as a whole or not at all.
package configfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor/internal/regularfile"
)

// listKeys are the keys below which a file of mcpvisor lists its servers. The first one is
// written.
var listKeys = []string{"mcpServers", "servers"}

// bom is a byte order mark, which stays at the start of a file.
var bom = []byte("\xef\xbb\xbf")

// File is one configuration file that is edited. It is not safe for concurrent use.
type File struct {
	path  string
	read  []byte // the content of the file; nil if it does not exist
	mode  os.FileMode
	root  hujson.Value
	mark  []byte // bom, or nothing
	style style
	keys  []string // below which it lists its servers; the first one is written
}

// maxFile is the longest file that is read, in bytes: some hosts keep more than servers in theirs.
const maxFile = 64 << 20

// Open reads a file. A file that does not exist is like one with an empty list, and
// [File.Write] makes it.
func Open(path string) (*File, error) { return openFile(path, listKeys, Starter()) }

// OpenHost reads the file of another host, which lists its servers below key. A file that does
// not exist, or is empty, is like one with an empty object.
func OpenHost(path, key string) (*File, error) { return openFile(path, []string{key}, "{\n}\n") }

func openFile(path string, keys []string, starter string) (*File, error) {
	data, err := regularfile.Read(path, maxFile)
	switch {
	case errors.Is(err, os.ErrNotExist):
		f, err := parse(path, []byte(starter))
		if err != nil {
			return nil, err
		}
		f.mode, f.keys = newMode, keys
		return f, nil
	case err != nil:
		return nil, fmt.Errorf("%s cannot be read; check its permissions: %w", path, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read; check its permissions: %w", path, err)
	}
	text := data
	if len(bytes.TrimSpace(data)) == 0 && starter != Starter() {
		text = []byte(starter)
	}
	f, err := parse(path, text)
	if err != nil {
		return nil, err
	}
	f.read, f.mode, f.keys = data, info.Mode().Perm(), keys
	return f, nil
}

func parse(path string, data []byte) (*File, error) {
	f := &File{path: path, keys: listKeys}
	if bytes.HasPrefix(data, bom) {
		f.mark, data = bom, data[len(bom):]
	}
	root, err := hujson.Parse(bytes.Clone(data))
	if err != nil {
		return nil, fmt.Errorf("%s is not valid JSON, so it cannot be changed; correct it first: %w", path, err)
	}
	if _, ok := root.Value.(*hujson.Object); !ok {
		return nil, fmt.Errorf("%s is not a JSON object, so it cannot be changed; name another file", path)
	}
	f.root, f.style = root, styleOf(data)
	return f, nil
}

// Exists reports whether there was a file when it was opened.
func (f *File) Exists() bool { return f.read != nil }

// Path returns the path of the file, as it was given to [Open].
func (f *File) Path() string { return f.path }

// Bytes returns the text of the file with all changes.
func (f *File) Bytes() []byte { return append(bytes.Clone(f.mark), f.root.Pack()...) }

// Names returns the names of the entries, in the order of the file.
func (f *File) Names() (names []string) {
	for _, list := range f.lists() {
		for i := range list.object.Members {
			names = append(names, NameOf(&list.object.Members[i]))
		}
	}
	return names
}

// Entry returns an entry as JSON without comments, and the line in which it begins, from
// 1. It reports false if the file does not have it.
func (f *File) Entry(name string) (value json.RawMessage, line int, ok bool) {
	list, i := f.find(name)
	if list == nil {
		return nil, 0, false
	}
	f.root.UpdateOffsets()
	return Plain(&list.object.Members[i].Value), 1 + bytes.Count(f.root.Pack()[:list.object.Members[i].Name.StartOffset], []byte("\n")), true
}

// MembersOf returns the members of an object; nil of anything else.
func MembersOf(v *hujson.Value) []hujson.ObjectMember {
	if v != nil {
		if object, ok := v.Value.(*hujson.Object); ok {
			return object.Members
		}
	}
	return nil
}

// MemberOf returns the member of an object that has a name, or nil. The last one counts, as in other decoders.
func MemberOf(v *hujson.Value, name string) (found *hujson.ObjectMember) {
	members := MembersOf(v)
	for i := range members {
		if NameOf(&members[i]) == name {
			found = &members[i]
		}
	}
	return found
}

// Plain returns a value without comments and spaces.
func Plain(v *hujson.Value) json.RawMessage {
	plain := v.Clone()
	plain.Standardize()
	plain.Minimize()
	return plain.Pack()
}

// Set adds an entry at the end of the list, or replaces the one of that name in its place. A
// list that is null or an empty array becomes an object, because no file with one can be read.
// It is an error if a list is any other value, which stays.
func (f *File) Set(name string, entry Object) error {
	if err := f.makeLists(); err != nil {
		return err
	}
	list, i := f.find(name)
	if list != nil {
		return f.style.replace(list, i, entry)
	}
	return f.style.add(f.lists()[0], name, entry)
}

// makeLists makes an object of each list, and a list if the file has none.
func (f *File) makeLists() error {
	members := f.listMembers()
	if len(members) == 0 {
		return f.style.add(f.top(), f.keys[0], Object{})
	}
	var empty []listMember
	for _, m := range members {
		value := m.parent.object.Members[m.index].Value.Value
		array, isArray := value.(*hujson.Array)
		switch {
		case value.Kind() == '{':
		case value.Kind() == 'n', isArray && len(array.Elements) == 0:
			empty = append(empty, m)
		default:
			return fmt.Errorf("nothing was changed: %q in %s is not an object, so it can list no server; correct it first, or name another file with --config", m.path, f.path)
		}
	}
	for _, m := range empty {
		if err := f.style.replace(m.parent, m.index, Object{}); err != nil {
			return err
		}
	}
	return nil
}

// Remove removes an entry with the comments that belong to it. It reports false if the
// file does not have it.
func (f *File) Remove(name string) bool {
	list, i := f.find(name)
	if list == nil {
		return false
	}
	remove(list.object, i)
	return true
}

// Input returns the declaration of an input of VS Code, as JSON, or nil.
func (f *File) Input(id string) json.RawMessage {
	inputs := f.inputs()
	if inputs == nil {
		return nil
	}
	for i := range inputs.Elements {
		var declaration struct{ ID string }
		if text := Plain(&inputs.Elements[i]); json.Unmarshal(text, &declaration) == nil && declaration.ID == id {
			return text
		}
	}
	return nil
}

// AddInput adds the declaration of an input of VS Code.
func (f *File) AddInput(declaration Object) error {
	if f.inputs() == nil {
		return f.style.add(f.top(), "inputs", []any{declaration})
	}
	return f.style.append(f.inputs(), declaration)
}

func (f *File) inputs() *hujson.Array {
	if m := MemberOf(&f.root, "inputs"); m != nil {
		array, _ := m.Value.Value.(*hujson.Array)
		return array
	}
	return nil
}

// list is an object of the file, and the whitespace before the line that it begins in.
type list struct {
	object *hujson.Object
	indent string
}

func (f *File) top() *list {
	object, _ := f.root.Value.(*hujson.Object) // parse has checked it
	return &list{object, ""}
}

// listMember is the member of an object whose value is a list of servers, or should be one.
type listMember struct {
	parent *list
	index  int
	path   string // of the key, as in "mcp.servers"
}

// listMembers returns the members that list servers, also those below "mcp" in VS Code's
// settings.
func (f *File) listMembers() (found []listMember) {
	add := func(parent *list, prefix string) {
		for i := range parent.object.Members {
			if key := NameOf(&parent.object.Members[i]); slices.Contains(f.keys, key) {
				found = append(found, listMember{parent, i, prefix + key})
			}
		}
	}
	top := f.top()
	add(top, "")
	for i := range top.object.Members {
		m := &top.object.Members[i]
		if inner, ok := m.Value.Value.(*hujson.Object); ok && NameOf(m) == "mcp" {
			add(&list{inner, indentOf(m.Name.BeforeExtra)}, "mcp.")
		}
	}
	return found
}

func (f *File) lists() (found []*list) {
	for _, m := range f.listMembers() {
		member := &m.parent.object.Members[m.index]
		if object, ok := member.Value.Value.(*hujson.Object); ok {
			found = append(found, &list{object, indentOf(member.Name.BeforeExtra)})
		}
	}
	return found
}

// find returns the list that has an entry, and the index of the entry.
func (f *File) find(name string) (*list, int) {
	for _, l := range f.lists() {
		for i := range l.object.Members {
			if NameOf(&l.object.Members[i]) == name {
				return l, i
			}
		}
	}
	return nil, 0
}

// NameOf returns the name of a member.
func NameOf(m *hujson.ObjectMember) string {
	if lit, ok := m.Name.Value.(hujson.Literal); ok {
		return lit.String()
	}
	return ""
}

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
