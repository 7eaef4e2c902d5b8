package jsonrpc

import (
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
)

// Bounds of the texts of a server that are kept, shown to users or passed to models, in
// bytes. Longer text is cut.
const (
	maxServerName   = 256
	maxInstructions = 64 << 10
	// MaxErrorText bounds the message of one error. The data of an error is not cut.
	MaxErrorText = 4 << 10
)

// NewSessionInfo returns the description of a session from the result of its handshake.
// Server name and version are shown to users, so secrets in them are masked. The
// instructions are for models and stay as they are.
func NewSessionInfo(result *mcp.InitializeResult, redactor redact.Redactor) mcpvisor.SessionInfo {
	info := mcpvisor.SessionInfo{
		ProtocolVersion: result.ProtocolVersion,
		Era:             mcpvisor.EraLegacy,
		Capabilities:    result.Capabilities,
		Instructions:    display.Shorten(result.Instructions, maxInstructions),
	}
	if IsModern(result.ProtocolVersion) {
		info.Era = mcpvisor.EraModern
	}
	if s := result.ServerInfo; s != nil {
		info.ServerName = display.Shorten(display.Line(redactor.Text(s.Name)), maxServerName)
		info.ServerVersion = display.Shorten(display.Line(redactor.Text(s.Version)), maxServerName)
	}
	return info
}
