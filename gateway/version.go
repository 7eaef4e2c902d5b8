package gateway

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/gateway/internal/capability"
	"github.com/mcpvisor/mcpvisor/gateway/internal/listing"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/internal/task"
)

// modernVersion is the first version without initialize.
const modernVersion = "2026-07-28"

// legacyVersions begin with initialize; the newest is the last.
var legacyVersions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

// capabilities are what every session declares. Servers come and go during a session, so
// they do not depend on what the servers have at its beginning.
var capabilities = &mcp.ServerCapabilities{
	Tools:       &mcp.ToolCapabilities{ListChanged: true},
	Prompts:     &mcp.PromptCapabilities{ListChanged: true},
	Resources:   &mcp.ResourceCapabilities{ListChanged: true, Subscribe: true},
	Completions: &mcp.CompletionCapabilities{},
	Logging:     &mcp.LoggingCapabilities{},
}

// initialize answers the handshake of versions before 2026-07-28 (MCP, basic, lifecycle). A
// version that is not known is answered with the newest.
func (c *connection) initialize(r *request, p *params) (any, error) {
	version := sessionVersion(p.ProtocolVersion)
	bits := sessionBits(version, r.Params)
	c.legacy.Store(true)
	c.declare(bits) // of a Transport; elsewhere the id of the session keeps it
	c.speak(version)
	c.introduce(r.Params, "clientInfo", version)
	return c.initializeResult(version, bits), nil
}

// sessionVersion is the version of a session whose client offers one.
func sessionVersion(offered string) string {
	if slices.Contains(legacyVersions, offered) {
		return offered
	}
	return legacyVersions[len(legacyVersions)-1]
}

// initializeResult is the answer to initialize. The types of the go-sdk have no tasks of 2025-11-25.
func (c *connection) initializeResult(version string, bits uint16) any {
	result := &mcp.InitializeResult{ProtocolVersion: version, Capabilities: capabilities, ServerInfo: c.serverInfo(), Instructions: c.instructions()}
	if bits&capability.Tasks == 0 {
		return result
	}
	type withTasks struct {
		*mcp.ServerCapabilities
		Tasks json.RawMessage `json:"tasks"`
	}
	return struct {
		*mcp.InitializeResult
		Capabilities withTasks `json:"capabilities"`
	}{result, withTasks{capabilities, legacyTaskCapabilities}}
}

// discover answers server/discover (2026-07-28).
func (c *connection) discover(*request, *params) (any, error) {
	modern := *capabilities
	modern.Extensions = map[string]any{task.Extension: struct{}{}}
	r := &mcp.DiscoverResult{SupportedVersions: supportedVersions(), Capabilities: &modern, Instructions: c.instructions()}
	r.Meta = mcp.Meta{mcp.MetaKeyServerInfo: c.serverInfo()}
	r.CacheScope = listing.CacheScope
	return r, nil
}

// supportedVersions are all versions, newest first.
func supportedVersions() []string {
	versions := append(slices.Clone(legacyVersions), modernVersion)
	slices.Reverse(versions)
	return versions
}

// checkVersion refuses the version that a request names, unless it is known.
func checkVersion(version string) error {
	if version == "" || version == modernVersion || slices.Contains(legacyVersions, version) {
		return nil
	}
	data, _ := json.Marshal(mcp.UnsupportedProtocolVersionData{Supported: supportedVersions(), Requested: message.Shorten(version)})
	return &jsonrpc.Error{Code: mcp.CodeUnsupportedProtocolVersion, Message: "unsupported protocol version", Data: data}
}

func (c *connection) serverInfo() *mcp.Implementation {
	return &mcp.Implementation{Name: c.opts.name, Version: c.opts.version}
}

// maxInstructions bounds the instructions of all servers together, in bytes.
const maxInstructions = 64 << 10

// instructions are those of the option, or else of the servers that are ready.
func (c *connection) instructions() string {
	if c.opts.instructions != nil {
		return *c.opts.instructions
	}
	var b strings.Builder
	r := c.view.Rules()
	for _, s := range c.client.Status() {
		if s.Session == nil || !r.OffersServer(s.Name) || s.Session.Instructions == "" || b.Len()+len(s.Session.Instructions) > maxInstructions {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(s.Name + ": " + listing.Visible(s.Session.Instructions))
	}
	return b.String()
}
