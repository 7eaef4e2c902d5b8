package jsonrpc

import (
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/transport"
)

// DeclaredCapabilities are the client capabilities (MCP, lifecycle, capability
// negotiation) that follow from the handlers of the host. The type of the go-sdk cannot
// omit roots.
type DeclaredCapabilities struct {
	Roots       *mcp.RootCapabilities        `json:"roots,omitempty"`
	Sampling    *mcp.SamplingCapabilities    `json:"sampling,omitempty"`
	Elicitation *mcp.ElicitationCapabilities `json:"elicitation,omitempty"`
}

// Capabilities returns the capabilities of a client with these handlers. It declares
// roots.listChanged in the legacy era only: the modern era has no such notification.
func Capabilities(h *transport.Handlers, legacy bool) (d DeclaredCapabilities) {
	if h.Roots != nil {
		d.Roots = &mcp.RootCapabilities{ListChanged: legacy}
	}
	if h.Sample != nil {
		d.Sampling = &mcp.SamplingCapabilities{}
		if h.SampleTools {
			d.Sampling.Tools = &mcp.SamplingToolsCapabilities{}
		}
	}
	if h.ElicitForm != nil || h.ElicitURL != nil {
		d.Elicitation = &mcp.ElicitationCapabilities{}
		if h.ElicitForm != nil {
			d.Elicitation.Form = &mcp.FormElicitationCapabilities{}
		}
		if h.ElicitURL != nil {
			d.Elicitation.URL = &mcp.URLElicitationCapabilities{}
		}
	}
	return d
}

// RootsChanged is the notification of a changed root list (MCP, client, roots). Only legacy
// servers get it. Modern servers request the roots when they need them.
const RootsChanged = `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`
