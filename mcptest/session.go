package mcptest

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/internal/task"

	"github.com/mcpvisor/mcpvisor/mcptest/internal/tools"
)

// session holds what the client negotiated and subscribed to.
type session struct {
	mu sync.Mutex // guards every field
	// version is the one that initialize negotiated; empty before it.
	version string
	// level is the lowest level of notifications/message; empty means all.
	level string
	// subscribed holds the URIs of resources/subscribe.
	subscribed map[string]bool
	// listening holds the open subscriptions/listen by request id.
	listening map[string]listenFilter
}

func (c *session) initialized() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version != ""
}

// speaksModern reports whether the script has a version without initialize. Versions
// are sorted, oldest first.
func (s *server) speaksModern() bool { return isModern(s.script.Versions[len(s.script.Versions)-1]) }

// legacyVersions are the versions of the initialize era that the script
// speaks, oldest first.
func (s *server) legacyVersions() []string {
	return slices.DeleteFunc(slices.Clone(s.script.Versions), isModern)
}

// isModern reports whether a version has no initialize. Versions are dates and compare
// as text.
func isModern(version string) bool { return version >= version20260728 }

// newestFirst returns the versions in the order of the wire.
func (s *server) newestFirst() []string {
	versions := slices.Clone(s.script.Versions)
	slices.Reverse(versions)
	return versions
}

// unsupported returns error -32022, which lists the supported versions.
func (s *server) unsupported(requested string) *jsonrpc.Error {
	return &jsonrpc.Error{
		Code: mcp.CodeUnsupportedProtocolVersion, Message: "unsupported protocol version",
		Data: tools.JSON(mcp.UnsupportedProtocolVersionData{Supported: s.newestFirst(), Requested: requested}),
	}
}

// checkProtocol rejects requests that the negotiated version does not allow. A server
// without a modern version ignores modern _meta.
func (s *server) checkProtocol(r *request) *jsonrpc.Error {
	if !s.speaksModern() {
		r.modern = false
	}
	if r.modern {
		return s.checkModern(r)
	}
	legacy := !isModern(s.script.Versions[0])
	switch {
	case r.method == "initialize", r.method == "ping" && legacy:
		return nil
	case r.method == "server/discover", r.method == "subscriptions/listen", r.method == "ping":
		return unknownMethod(r.method)
	case !legacy:
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "missing _meta field " + mcp.MetaKeyProtocolVersion}
	}
	if !s.session.initialized() {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "method " + r.method + " is invalid before initialize"}
	}
	return nil
}

func (s *server) checkModern(r *request) *jsonrpc.Error {
	var meta map[string]json.RawMessage
	if err := json.Unmarshal(r.params.Meta, &meta); err != nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "_meta is not an object"}
	}
	var version string
	if json.Unmarshal(meta[mcp.MetaKeyProtocolVersion], &version) != nil || !slices.Contains(s.script.Versions, version) {
		return s.unsupported(version)
	}
	if caps := strings.TrimSpace(string(meta[mcp.MetaKeyClientCapabilities])); !strings.HasPrefix(caps, "{") {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "missing or invalid _meta field " + mcp.MetaKeyClientCapabilities}
	}
	switch r.method {
	case "initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
		return unknownMethod(r.method)
	}
	return nil
}

func unknownMethod(method string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method " + method + " is not known"}
}

// capabilities returns the capabilities that the server declares in an era.
func (s *server) capabilities(modern bool) map[string]any {
	caps := map[string]any{}
	if !s.script.NoTools {
		caps["tools"] = map[string]bool{"listChanged": true}
	}
	if !s.script.NoResources {
		caps["resources"] = map[string]bool{"listChanged": true, "subscribe": true}
	}
	if !s.script.NoPrompts {
		caps["prompts"] = map[string]bool{"listChanged": true}
	}
	if !modern {
		caps["logging"] = struct{}{}
	}
	switch {
	case !s.offersTasks():
	case modern:
		caps["extensions"] = map[string]any{task.Extension: struct{}{}}
	default:
		caps["tasks"] = json.RawMessage(`{"cancel":{},"requests":{"tools":{"call":{}}}}`)
	}
	return caps
}

func (s *server) initialize(r *request) ([]byte, *jsonrpc.Error) {
	versions := s.legacyVersions()
	if len(versions) == 0 {
		return nil, s.unsupported(r.params.Version)
	}
	version := versions[len(versions)-1]
	if slices.Contains(versions, r.params.Version) {
		version = r.params.Version
	}
	if f := r.faultOf(ActionRefuseVersion); f != nil {
		version = cmp.Or(f.Text, "1999-01-01")
	}
	s.session.mu.Lock()
	s.session.version = version
	s.session.mu.Unlock()
	return members(map[string]any{
		"protocolVersion": version,
		"capabilities":    s.capabilities(false),
		"serverInfo":      s.serverInfo(),
		"instructions":    omitEmpty(s.script.Instructions),
	}), nil
}

func (s *server) discover(r *request) ([]byte, *jsonrpc.Error) {
	if f := r.faultOf(ActionRefuseVersion); f != nil {
		e := s.unsupported(version20260728)
		e.Data = tools.JSON(mcp.UnsupportedProtocolVersionData{
			Supported: []string{cmp.Or(f.Text, "1999-01-01")}, Requested: version20260728,
		})
		return nil, e
	}
	return members(map[string]any{
		"supportedVersions": s.newestFirst(),
		"capabilities":      s.capabilities(true),
		"instructions":      omitEmpty(s.script.Instructions),
		"ttlMs":             0,
		"cacheScope":        "private",
	}), nil
}

// members marshals a result without its braces and without nil members.
func members(m map[string]any) []byte {
	for k, v := range m {
		if v == nil {
			delete(m, k)
		}
	}
	b := tools.JSON(m)
	return b[1 : len(b)-1]
}

func omitEmpty(text string) any {
	if text == "" {
		return nil
	}
	return text
}
