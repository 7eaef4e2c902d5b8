package hosts

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"regexp"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/configfile"
	"github.com/mcpvisor/mcpvisor/internal/regularfile"
)

// object is a JSON object that keeps the order of its members.
type object = configfile.Object

// raw is an entry as the host has it.
type raw struct {
	name  string
	line  int // from 1; 0 if it is not known
	entry object
	err   error // why it is no entry
}

// input is a declaration of VS Code's "inputs".
type input struct {
	id          string
	declaration object
}

// maxFile is the longest file that is read, in bytes. Claude Code keeps its history beside
// its servers.
const maxFile = 64 << 20

func readFile(path string) ([]byte, error) {
	text, err := regularfile.Read(path, maxFile)
	return bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), err
}

// maxDepth is how deep objects and lists may be nested: the parser is recursive.
const maxDepth = 500

// syntaxLine finds the line in an error of the parser.
var syntaxLine = regexp.MustCompile(`^hujson: line (\d+), `)

// parseJSON parses JSON with comments and trailing commas.
func parseJSON(text []byte) (*hujson.Object, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return &hujson.Object{}, nil
	}
	depth := 0
	for _, c := range text { // brackets in strings count, too: no real file has so many
		switch c {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if depth > maxDepth {
			return nil, errors.New("it is nested too deep")
		}
	}
	root, err := hujson.Parse(text)
	if err != nil {
		place := ""
		if found := syntaxLine.FindStringSubmatch(err.Error()); found != nil {
			place = " in line " + found[1]
		}
		return nil, errors.New("it is not valid JSON" + place + "; correct it there") // the parser's error may show a secret
	}
	top, ok := root.Value.(*hujson.Object)
	if !ok {
		return nil, errors.New("it is not a JSON object")
	}
	return top, nil
}

// member returns the value of a key of an object, or nil. The last one counts, as in other
// decoders.
func member(o *hujson.Object, key string) (found *hujson.Value) {
	if o == nil {
		return nil
	}
	for i := range o.Members {
		if name, ok := o.Members[i].Name.Value.(hujson.Literal); ok && name.String() == key {
			found = &o.Members[i].Value
		}
	}
	return found
}

func objectAt(o *hujson.Object, key string) *hujson.Object {
	v := member(o, key)
	if v == nil {
		return nil
	}
	inner, _ := v.Value.(*hujson.Object)
	return inner
}

func entriesOf(text []byte, list *hujson.Object) (entries []raw) {
	if list == nil {
		return nil
	}
	for i := range list.Members {
		m := &list.Members[i]
		name, _ := m.Name.Value.(hujson.Literal)
		r := raw{name: name.String(), line: 1 + bytes.Count(text[:m.Name.StartOffset], []byte("\n"))}
		entry, ok := decode(&m.Value).(object)
		if !ok {
			r.err = errors.New("it is not an object")
		}
		r.entry = entry
		entries = append(entries, r)
	}
	return entries
}

// decode turns parsed JSON into values that configfile writes: objects keep their order,
// numbers their text.
func decode(v *hujson.Value) any {
	switch v := v.Value.(type) {
	case *hujson.Object:
		o := object{}
		for i := range v.Members {
			name, _ := v.Members[i].Name.Value.(hujson.Literal)
			o.Set(name.String(), decode(&v.Members[i].Value))
		}
		return o
	case *hujson.Array:
		list := make([]any, len(v.Elements))
		for i := range v.Elements {
			list[i] = decode(&v.Elements[i])
		}
		return list
	case hujson.Literal:
		switch v.Kind() {
		case '"':
			return v.String()
		case 't', 'f':
			return v.Bool()
		case '0':
			return json.Number(v)
		}
	}
	return nil
}

// readMember reads the servers below one key at the top.
func readMember(key string) func([]byte, Environment) ([]raw, []input, error) {
	return func(text []byte, _ Environment) ([]raw, []input, error) {
		top, err := parseJSON(text)
		if err != nil {
			return nil, nil, err
		}
		return entriesOf(text, objectAt(top, key)), nil, nil
	}
}

// readClaudeCode reads the servers of the user, and those that the user has added for the
// project alone.
func readClaudeCode(text []byte, e Environment) ([]raw, []input, error) {
	top, err := parseJSON(text)
	if err != nil {
		return nil, nil, err
	}
	entries := entriesOf(text, objectAt(top, "mcpServers"))
	projects := objectAt(top, "projects")
	for _, same := range []func(string) bool{
		func(dir string) bool { return dir == e.Dir || dir == filepath.ToSlash(e.Dir) },
		func(dir string) bool { return sameFile(dir, e.Dir) }, // the host may resolve symbolic links
	} {
		for i := 0; projects != nil && i < len(projects.Members); i++ {
			dir, _ := projects.Members[i].Name.Value.(hujson.Literal)
			if project, ok := projects.Members[i].Value.Value.(*hujson.Object); ok && same(dir.String()) {
				return append(entries, entriesOf(text, objectAt(project, "mcpServers"))...), nil, nil
			}
		}
	}
	return entries, nil, nil
}

// readVSCode reads "servers" of mcp.json, or of "mcp" in settings.json, and "inputs".
func readVSCode(text []byte, _ Environment) ([]raw, []input, error) {
	top, err := parseJSON(text)
	if err != nil {
		return nil, nil, err
	}
	if objectAt(top, "servers") == nil {
		top = objectAt(top, "mcp")
	}
	var inputs []input
	if v := member(top, "inputs"); v != nil {
		list, _ := decode(v).([]any)
		for _, element := range list {
			declaration, _ := element.(object)
			if id, ok := declaration.Get("id").(string); ok {
				inputs = append(inputs, input{id, declaration})
			}
		}
	}
	return entriesOf(text, objectAt(top, "servers")), inputs, nil
}
