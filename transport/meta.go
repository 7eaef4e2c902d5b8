package transport

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// modernVersion is the first protocol version without initialize: every
// request carries version, client info and capabilities in _meta instead.
const modernVersion = "2026-07-28"

// legacyVersion is what initialize offers.
const legacyVersion = "2025-11-25"

// isModern reports whether a protocol version is of the modern era. Versions
// are dates and compare as text.
func isModern(version string) bool { return version >= modernVersion }

// requestMeta is the _meta object that each request of a modern session
// carries (2026-07-28, basic, "Per-request metadata"), as JSON. It is empty
// for a legacy session.
func requestMeta(version string, info *mcp.Implementation, handlers *Handlers) (json.RawMessage, error) {
	if !isModern(version) {
		return nil, nil
	}
	return json.Marshal(map[string]any{
		mcp.MetaKeyProtocolVersion:    version,
		mcp.MetaKeyClientInfo:         info,
		mcp.MetaKeyClientCapabilities: handlers.declare(false),
	})
}
