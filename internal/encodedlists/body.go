// Package encodedlists holds what a server offers as it is kept and as it travels: the description of a session and its lists, as
// the server sent them. In a fleet the owner of a server encodes a [Body] once; a lazy server is listed from one while it
// sleeps.
package encodedlists

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/internal/jsonbound"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/retention"
)

// Bounds of a body. Where it comes from is not trusted with memory.
const (
	// MaxBytes bounds the encoded body.
	MaxBytes = retention.ListsBytes
	// maxEntries bounds the entries of all lists together.
	maxEntries = 100_000
	// maxDepth bounds the nesting: that of an entry (transport/discovery), and what is around it.
	maxDepth = 510
	// maxSession bounds the description of the session, which is decoded.
	maxSession = 4 << 20
)

// sessionLimits are for the decoded description of the session.
var sessionLimits = jsonbound.Limits{Elements: 10_000, Depth: 100, Bytes: 8 << 20}

// version is that of the encoding. A later version may add members.
const version = 1

// Body holds what one server offers: its session, and the lists as it would answer them, each in one
// page. Entries are as the server sent them. A body is immutable. The digest says all of it.
type Body struct {
	encoded []byte
	digest  string
	session session
	results map[string]json.RawMessage // by method; parts of encoded
	entries int
}

// session is the part of mcpvisor.SessionInfo that is the same on all nodes.
type session struct {
	ProtocolVersion string                  `json:"protocolVersion"`
	Era             mcpvisor.Era            `json:"era"`
	ServerName      string                  `json:"serverName,omitempty"`
	ServerVersion   string                  `json:"serverVersion,omitempty"`
	Capabilities    *mcp.ServerCapabilities `json:"capabilities,omitempty"`
	Instructions    string                  `json:"instructions,omitempty"`
	Deprecated      string                  `json:"deprecated,omitempty"`
}

// lists are the methods that a body answers with a list, and the member that has it.
var lists = []struct{ method, member string }{
	{"tools/list", "tools"},
	{"resources/list", "resources"},
	{"resources/templates/list", "resourceTemplates"},
	{"prompts/list", "prompts"},
}

// Digest returns the digest of an encoded body: SHA-256, in hexadecimal digits.
func Digest(encoded []byte) string {
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}

// ErrDigest is the error of bytes that have another digest than the wanted one.
var ErrDigest = errors.New("the catalog does not have its digest")

// Decode reads a body that another node has encoded, and keeps encoded. The lists are checked to be
// JSON within the bounds, and are not decoded. An empty digest is not compared.
func Decode(encoded []byte, digest string) (*Body, error) {
	if len(encoded) > MaxBytes {
		return nil, fmt.Errorf("the catalog has %d bytes, and %d at most are accepted", len(encoded), MaxBytes)
	}
	b := &Body{encoded: encoded, digest: Digest(encoded), results: make(map[string]json.RawMessage, len(lists))}
	if digest != "" && b.digest != digest {
		return nil, fmt.Errorf("%w: wanted %.64s, got %s", ErrDigest, digest, b.digest)
	}
	if !jsonscan.ValidWithin(encoded, maxDepth) {
		return nil, fmt.Errorf("the catalog is not JSON within %d levels of nesting", maxDepth)
	}
	var found struct{ version, session, results json.RawMessage }
	err := jsonscan.EachMember(encoded, func(key string, value []byte) error {
		switch key {
		case "v":
			found.version = value
		case "session":
			found.session = value
		case "results":
			found.results = value
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("the catalog cannot be read: %w", err)
	}
	if v, err := jsonscan.ReadNumber(found.version); err != nil || v < version {
		return nil, errors.New("the catalog has no version that can be read")
	}
	if err := b.readSession(found.session); err != nil {
		return nil, err
	}
	if err := b.readResults(found.results); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *Body) readSession(text []byte) error {
	if len(text) == 0 || len(text) > maxSession {
		return fmt.Errorf("the catalog describes its session in %d bytes; 1 to %d are accepted", len(text), maxSession)
	}
	if _, err := jsonbound.Check(context.Background(), text, sessionLimits); err != nil {
		return fmt.Errorf("the catalog describes a session with %w", err)
	}
	if err := json.Unmarshal(text, &b.session); err != nil {
		return fmt.Errorf("the catalog describes a session that cannot be read: %w", err)
	}
	if b.session.ProtocolVersion == "" || b.session.Era == "" {
		return errors.New("the catalog describes a session without a version of the protocol")
	}
	return nil
}

func (b *Body) readResults(text []byte) error {
	err := jsonscan.EachMember(text, func(method string, result []byte) error {
		for _, l := range lists {
			if l.method == method {
				if b.results[method] != nil {
					return fmt.Errorf("%s is there twice", method)
				}
				b.results[method] = result[:len(result):len(result)]
				return b.count(l.member, result)
			}
		}
		return nil // of a later version
	})
	if err == nil && len(b.results) < len(lists) {
		err = errors.New("a list is missing")
	}
	if err != nil {
		return fmt.Errorf("the lists of the catalog: %w", err)
	}
	return nil
}

// count counts the entries of one result, whose only member is the list.
func (b *Body) count(member string, result []byte) error {
	found := false
	err := jsonscan.EachMember(result, func(key string, value []byte) (err error) {
		if found || key != member || len(value) == 0 || value[0] != '[' {
			return fmt.Errorf("the only member must be %q, an array", member)
		}
		found = true
		jsonscan.EachItem(value, func([]byte) bool {
			if b.entries++; b.entries > maxEntries {
				err = fmt.Errorf("more than %d entries", maxEntries)
			}
			return err == nil
		})
		return err
	})
	if err == nil && !found {
		err = fmt.Errorf("there is no %q", member)
	}
	return err
}

// Encoded returns the bytes of the body. Do not change them.
func (b *Body) Encoded() []byte { return b.encoded }

// Digest returns the digest of the body.
func (b *Body) Digest() string { return b.digest }

// Info returns the description of the session, without what only its owner knows, such as the
// process id. The capabilities are shared: do not change them.
func (b *Body) Info() mcpvisor.SessionInfo {
	s := &b.session
	return mcpvisor.SessionInfo{ProtocolVersion: s.ProtocolVersion, Era: s.Era, ServerName: s.ServerName, ServerVersion: s.ServerVersion,
		Capabilities: s.Capabilities, Instructions: s.Instructions, Deprecated: s.Deprecated}
}

// Answer returns the result of a request that the body answers: initialize, server/discover, and
// the first and only page of each list. The result is shared: do not change it. ok is false for
// other methods, and for a list with a cursor, which the body never gives.
func (b *Body) Answer(method string, params json.RawMessage) (result json.RawMessage, ok bool) {
	switch method {
	case "initialize", "server/discover":
		result, err := b.greeting(method)
		return result, err == nil
	}
	cursor := jsonscan.Member(params, "cursor")
	result, ok = b.results[method]
	return result, ok && (cursor == nil || string(cursor) == "null")
}

// greeting is the result of initialize (legacy), or of server/discover (since 2026-07-28).
func (b *Body) greeting(method string) (json.RawMessage, error) {
	type implementation struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	s := &b.session
	result := struct {
		ProtocolVersion   string                  `json:"protocolVersion,omitempty"`
		SupportedVersions []string                `json:"supportedVersions,omitempty"`
		Capabilities      *mcp.ServerCapabilities `json:"capabilities"`
		ServerInfo        implementation          `json:"serverInfo"`
		Instructions      string                  `json:"instructions,omitempty"`
	}{Capabilities: s.Capabilities, ServerInfo: implementation{s.ServerName, s.ServerVersion}, Instructions: s.Instructions}
	if result.Capabilities == nil {
		result.Capabilities = &mcp.ServerCapabilities{}
	}
	if method == "initialize" {
		result.ProtocolVersion = s.ProtocolVersion
	} else {
		result.SupportedVersions = []string{s.ProtocolVersion}
	}
	return json.Marshal(result)
}

// New encodes a session and its lists.
func New(info mcpvisor.SessionInfo, c *catalog.Catalog) (*Body, error) {
	described, err := json.Marshal(session{ProtocolVersion: info.ProtocolVersion, Era: info.Era, ServerName: info.ServerName, ServerVersion: info.ServerVersion,
		Capabilities: info.Capabilities, Instructions: info.Instructions, Deprecated: info.Deprecated})
	if err != nil {
		return nil, fmt.Errorf("encoding the session: %w", err)
	}
	e := encoder{b: append([]byte(`{"v":`), strconv.Itoa(version)...)}
	e.b = append(append(append(e.b, `,"session":`...), described...), `,"results":{`...)
	appendList(&e, 0, c.Tools, func(t *mcpvisor.Tool) []byte { return t.Raw })
	appendList(&e, 1, c.Resources, func(r *mcpvisor.Resource) []byte { return r.Raw })
	appendList(&e, 2, c.Templates, func(r *mcpvisor.ResourceTemplate) []byte { return r.Raw })
	appendList(&e, 3, c.Prompts, func(p *mcpvisor.Prompt) []byte { return p.Raw })
	if e.err != nil {
		return nil, fmt.Errorf("encoding the lists: %w", e.err)
	}
	return Decode(bytes.Clone(append(e.b, "}}"...)), "") // without the room that append has left
}

// encoder appends the lists to b, until the first error.
type encoder struct {
	b   []byte
	err error
}

func appendList[T any](e *encoder, number int, items []T, rawOf func(*T) []byte) {
	if number > 0 {
		e.b = append(e.b, ',')
	}
	e.b = fmt.Appendf(e.b, `%q:{%q:[`, lists[number].method, lists[number].member)
	for i := range items {
		if e.err != nil {
			return
		}
		item := rawOf(&items[i])
		if len(e.b)+len(item) > MaxBytes {
			e.err = fmt.Errorf("they have more than %d bytes", MaxBytes)
		}
		if i > 0 {
			e.b = append(e.b, ',')
		}
		e.b = append(e.b, item...)
	}
	e.b = append(e.b, ']', '}')
}
