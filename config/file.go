package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor/messages"
)

// DefaultPath is where a project keeps its servers.
const DefaultPath = ".mcp.json"

// maxSize is the longest file that is read, in bytes.
const maxSize = 4 << 20

// File is what a configuration file says.
type File struct {
	// Path is the file's name, as it was given.
	Path string
	// Servers are the usable entries, in the order of the file.
	Servers []Server
	// Problems are what is wrong with the file, in the order of its lines.
	Problems []Problem
}

// Server is one usable entry.
type Server struct {
	// Spec is ready to be registered. StartSupervised is set: a host has to come
	// up while a server is down.
	Spec messages.ServerSpec
	// Line is where the entry begins, from 1.
	Line int
	// Disabled entries are listed and not meant to be started. Only the name of
	// their Spec is filled in.
	Disabled bool
}

// Specs returns the specs of the servers that are not disabled.
func (f *File) Specs() []messages.ServerSpec {
	var specs []messages.ServerSpec
	for _, s := range f.Servers {
		if !s.Disabled {
			specs = append(specs, s.Spec)
		}
	}
	return specs
}

// Option adjusts how a file is read.
type Option func(*reader)

// WithLookup sets where variables come from. Default: os.LookupEnv.
func WithLookup(lookup func(name string) (string, bool)) Option {
	return func(r *reader) { r.lookup = lookup }
}

// WithWorkspace sets what ${workspaceFolder} stands for. Default: the
// directory of the file.
func WithWorkspace(dir string) Option { return func(r *reader) { r.workspace = dir } }

// WithInput answers VS Code's ${input:id}, for instance by asking a person.
// Without it, entries that need an input are problems.
func WithInput(ask func(id string) (string, error)) Option {
	return func(r *reader) { r.input = ask }
}

// Load reads a file. See [Parse].
func Load(path string, opts ...Option) (*File, error) {
	st, err := os.Stat(path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("configuration %s does not exist; create it, or name another file: %w", path, os.ErrNotExist)
		}
		return nil, fmt.Errorf("configuration %s cannot be read: %w", path, err)
	}
	if st.Size() > maxSize {
		return nil, fmt.Errorf("configuration %s has %d bytes, and more than %d cannot be right; name another file", path, st.Size(), maxSize)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("configuration %s cannot be read: %w", path, err)
	}
	return Parse(data, path, opts...)
}

// Parse reads the text of a file; name is what problems call it, and its
// directory is where relative paths begin. The error says with file, line and
// column why the text as a whole is of no use.
func Parse(data []byte, name string, opts ...Option) (*File, error) {
	r := &reader{file: &File{Path: name}, lookup: os.LookupEnv, workspace: filepath.Dir(name)}
	if abs, err := filepath.Abs(r.workspace); err == nil {
		r.workspace = abs
	}
	for _, o := range opts {
		o(r)
	}
	r.data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	root, err := hujson.Parse(bytes.Clone(r.data))
	if err != nil {
		return nil, syntaxError(name, err)
	}
	top, ok := root.Value.(*hujson.Object)
	if !ok {
		return nil, fmt.Errorf("%s: the file is not a JSON object; begin with {\"mcpServers\": {…}}", r.at(&root))
	}
	if err := r.read(top); err != nil {
		return nil, err
	}
	return r.file, nil
}

var syntaxPlace = regexp.MustCompile(`^hujson: line (\d+), column (\d+): `)

func syntaxError(name string, err error) error {
	text := err.Error()
	if m := syntaxPlace.FindStringSubmatch(text); m != nil {
		name += ":" + m[1] + ":" + m[2]
		text = strings.TrimPrefix(text, m[0])
	}
	return fmt.Errorf("%s: this is not JSON (comments and trailing commas are allowed): %s", name, text)
}

// reader is a file being read.
type reader struct {
	file      *File
	data      []byte
	lookup    func(string) (string, bool)
	input     func(string) (string, error)
	workspace string
}

// read finds the servers in the top-level object.
func (r *reader) read(top *hujson.Object) error {
	type list struct {
		key   string
		value *hujson.Value
	}
	var lists []list
	for i := range top.Members {
		m := &top.Members[i]
		switch key := name(m); key {
		case "mcpServers", "servers":
			lists = append(lists, list{key, &m.Value})
		case "mcp": // VS Code's settings
			if inner, ok := m.Value.Value.(*hujson.Object); ok {
				for j := range inner.Members {
					if key := name(&inner.Members[j]); key == "servers" || key == "mcpServers" {
						lists = append(lists, list{"mcp." + key, &inner.Members[j].Value})
					}
				}
			}
		}
	}
	if len(lists) == 0 {
		return fmt.Errorf("%s:1: there is neither \"mcpServers\" nor \"servers\" in it; put the servers below one of them", r.file.Path)
	}
	seen := map[string]int{}
	for _, l := range lists {
		servers, ok := l.value.Value.(*hujson.Object)
		if !ok {
			return fmt.Errorf("%s: %q is not an object; write {\"name\": {\"command\": …}}", r.at(l.value), l.key)
		}
		for i := range servers.Members {
			m := &servers.Members[i]
			server := name(m)
			if line, twice := seen[server]; twice {
				r.problem(&m.Name, server, Error, "the name is taken by the entry in line %d; rename one of them", line)
				continue
			}
			seen[server], _ = r.position(&m.Name)
			r.entry(server, m)
		}
	}
	slices.SortStableFunc(r.file.Problems, func(a, b Problem) int {
		return cmp.Or(a.Line-b.Line, a.Column-b.Column)
	})
	return nil
}

// name is the name of a member.
func name(m *hujson.ObjectMember) string {
	if lit, ok := m.Name.Value.(hujson.Literal); ok {
		return lit.String()
	}
	return ""
}

// position is where a value begins: line and column, from 1.
func (r *reader) position(v *hujson.Value) (line, column int) {
	before := r.data[:min(max(v.StartOffset, 0), len(r.data))]
	return 1 + bytes.Count(before, []byte("\n")), len(before) - bytes.LastIndexByte(before, '\n')
}

func (r *reader) at(v *hujson.Value) string {
	line, column := r.position(v)
	return fmt.Sprintf("%s:%d:%d", r.file.Path, line, column)
}
