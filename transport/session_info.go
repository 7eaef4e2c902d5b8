package transport

import (
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

// What a server says about itself is shown to people, kept for as long as it
// runs, and told to models: it is bounded, in bytes.
const (
	maxOwnName      = 256
	maxInstructions = 64 << 10
	// maxErrorText is how much of an error's text is kept. What is for programs
	// stands in its data.
	maxErrorText = 4 << 10
)

// sessionInfo is what negotiation told. The server's name and version are shown,
// so they hold no secrets of ours; its instructions are for the model.
func sessionInfo(result *mcp.InitializeResult, hidden veil) mcpvisor.SessionInfo {
	info := mcpvisor.SessionInfo{
		ProtocolVersion: result.ProtocolVersion,
		Era:             mcpvisor.EraLegacy,
		Capabilities:    result.Capabilities,
		Instructions:    cut(result.Instructions, maxInstructions),
	}
	if isModern(result.ProtocolVersion) {
		info.Era = mcpvisor.EraModern
	}
	if s := result.ServerInfo; s != nil {
		info.ServerName = cut(plain(hidden.text(s.Name)), maxOwnName)
		info.ServerVersion = cut(plain(hidden.text(s.Version)), maxOwnName)
	}
	return info
}

// cut shortens a text to at most size bytes, and says so.
func cut(text string, size int) string {
	const sign = " … (cut)"
	if len(text) <= size {
		return text
	}
	end := size - len(sign)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + sign
}

// cutAt is the beginning of a text, of at most size bytes.
func cutAt(text string, size int) string { return display.Prefix(text, size) }

// plain makes a server's text fit to be shown, on one line.
func plain(text string) string { return display.Line(text) }
