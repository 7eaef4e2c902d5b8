package jsonrpc

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/transport"
)

// ModernVersion is the first protocol version without initialize: every
// request carries version, client info and capabilities in _meta instead.
const ModernVersion = "2026-07-28"

// LegacyVersion is what initialize offers.
const LegacyVersion = "2025-11-25"

// IsModern reports whether a protocol version is of the modern era. Versions
// are dates and compare as text.
func IsModern(version string) bool { return version >= ModernVersion }

// RequestMeta is the _meta object that each request of a modern session
// carries (2026-07-28, basic, "Per-request metadata"), as JSON. It is empty
// for a legacy session.
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
