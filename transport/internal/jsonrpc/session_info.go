package jsonrpc

import (
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
)

// What a server says about itself is shown to people, kept for as long as it
// runs, and told to models: it is bounded, in bytes.
const (
	maxServerName   = 256
	maxInstructions = 64 << 10
	// MaxErrorText is how much of an error's text is kept. What is for programs
	// stands in its data.
	MaxErrorText = 4 << 10
)

// NewSessionInfo is what negotiation told. The server's name and version are shown,
// so they hold no secrets of ours; its instructions are for the model.
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
