package jsonrpc

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/transport"
)

// ModernVersion is the first protocol version without initialize: instead every request
// carries the version, the client info and the capabilities in _meta.
const ModernVersion = "2026-07-28"

// LegacyVersion is the protocol version that the client offers in initialize.
const LegacyVersion = "2025-11-25"

// IsModern reports whether a protocol version belongs to the modern era. Versions are
// dates, so comparing them as text orders them.
func IsModern(version string) bool { return version >= ModernVersion }

// RequestMeta returns the _meta object that each request of a modern session carries
// (2026-07-28, basic, "Per-request metadata"), as JSON; nil for a legacy session.
func RequestMeta(version string, info *mcp.Implementation, handlers *transport.Handlers) (json.RawMessage, error) {
	if !IsModern(version) {
		return nil, nil
	}
	return json.Marshal(map[string]any{
		mcp.MetaKeyProtocolVersion:    version,
		mcp.MetaKeyClientInfo:         info,
		mcp.MetaKeyClientCapabilities: Capabilities(handlers, false),
	})
}
