package jsonrpc

import (
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/transport"
)

// DeclaredCapabilities are the capabilities that follow from handlers, as the protocol
// writes them. The go-sdk's own type cannot leave out roots.
type DeclaredCapabilities struct {
	Roots       *mcp.RootCapabilities        `json:"roots,omitempty"`
	Sampling    *mcp.SamplingCapabilities    `json:"sampling,omitempty"`
	Elicitation *mcp.ElicitationCapabilities `json:"elicitation,omitempty"`
}

// Capabilities says what a client with these handlers is capable of. Changes of the
// roots are announced in the legacy era only.
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

// RootsChanged is what servers of the legacy era are told. The modern era has
// no such notice: servers ask when they need the roots.
const RootsChanged = `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`
