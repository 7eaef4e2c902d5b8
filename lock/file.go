package lock

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/canonical"
)

// FileName is the usual name of a lock file, beside the configuration.
const FileName = "mcpvisor.lock"

// MaxBytes is the longest lock file that is read.
const MaxBytes = 64 << 20

// version is that of the format. A file of another one is not used.
const version = 1

// File is the content of a lock file. The zero value is an empty file.
type File struct {
	// Servers has what was approved, by the name of the server.
	Servers map[string]*Server
}

// Server is what one server offers, in the form that is compared: as the server sent it, with the members of each object in
// order. Entries are by name, and templates by their URI template.
type Server struct {
	// Start is what is started, as the configuration writes it: an object with command and arguments, or an address, in
	// which variables are not replaced. Empty: it is not compared.
	Start json.RawMessage `json:"start,omitempty"`
	// Instructions is the server's advice to a language model.
	Instructions string                     `json:"instructions,omitempty"`
	Tools        map[string]json.RawMessage `json:"tools,omitempty"`
	Prompts      map[string]json.RawMessage `json:"prompts,omitempty"`
	Templates    map[string]json.RawMessage `json:"resourceTemplates,omitempty"`
}

// stored is a server in a file. The digest finds a file that was damaged, or was merged by mistake.
type stored struct {
	Digest string `json:"digest"`
	*Server
}

// Digest identifies everything that s has, as in "sha256:…".
func (s *Server) Digest() string {
	text, err := json.Marshal(s)
	if err != nil { // a value that is not JSON has no digest that a file could have
		return ""
	}
	sum := canonical.Sum(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Parse reads a lock file. A file of another version, a damaged one and one with unknown members are errors: none of it may
// be used.
func Parse(text []byte) (*File, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("it has more than %d bytes", MaxBytes)
	}
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("it is damaged: %w", err)
	}
	if head.Version != version {
		return nil, fmt.Errorf("it has the version %d, and this program reads version %d", head.Version, version)
	}
	var whole struct {
		Version int               `json:"version"`
		Servers map[string]stored `json:"servers"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&whole); err != nil {
		return nil, fmt.Errorf("it is damaged: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it is damaged: more text follows the object")
	}
	f := &File{Servers: map[string]*Server{}}
	for name, s := range whole.Servers {
		if s.Server == nil {
			s.Server = &Server{}
		}
		if s.Server.normalize(); s.Server.Digest() != s.Digest {
			return nil, fmt.Errorf("it is damaged: the digest of the server %.100q is another one; restore the file from version control, or remove it and approve all servers with mcpvisor lock", name)
		}
		f.Servers[name] = s.Server
	}
	return f, nil
}

// Encode returns the text of the file. Equal files have equal texts.
func (f *File) Encode() ([]byte, error) {
	servers := map[string]stored{}
	for name, s := range f.Servers {
		s.normalize()
		servers[name] = stored{s.Digest(), s}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(map[string]any{"version": version, "servers": servers})
	return b.Bytes(), err
}

// normalize brings all values into the form that is compared.
func (s *Server) normalize() {
	if s.Start != nil {
		s.Start = canonical.Append(nil, s.Start)
	}
	for _, list := range []map[string]json.RawMessage{s.Tools, s.Prompts, s.Templates} {
		for name, raw := range list {
			list[name] = canonical.Append(nil, raw)
		}
	}
}

// lists are the lists of a server, by their names in a [mcpvisor.Finding].
func (s *Server) lists() map[string]map[string]json.RawMessage {
	return map[string]map[string]json.RawMessage{"tools": s.Tools, "prompts": s.Prompts, "resourceTemplates": s.Templates}
}

// add takes over the lists of an offer that were read.
func (s *Server) add(offer mcpvisor.Offer) {
	s.Instructions = offer.Instructions
	for _, list := range []struct {
		to   *map[string]json.RawMessage
		from []mcpvisor.OfferEntry
	}{{&s.Tools, offer.Tools}, {&s.Prompts, offer.Prompts}, {&s.Templates, offer.Templates}} {
		if list.from == nil {
			continue
		}
		*list.to = nil
		for _, e := range list.from {
			if *list.to == nil {
				*list.to = map[string]json.RawMessage{}
			}
			(*list.to)[e.Name] = canonical.Append(nil, e.Raw)
		}
	}
}

// clone copies the maps, and shares their values.
func (s *Server) clone() *Server {
	next := *s
	next.Tools, next.Prompts, next.Templates = maps.Clone(s.Tools), maps.Clone(s.Prompts), maps.Clone(s.Templates)
	return &next
}

// Names are the names of the servers, sorted.
func (f *File) Names() []string { return slices.Sorted(maps.Keys(f.Servers)) }
