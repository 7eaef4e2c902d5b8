package inbound

import (
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// clientOptions returns the options of a go-sdk client that declares the capabilities of
// the handlers and routes requests to them.
func (h *Handler) clientOptions() *mcp.ClientOptions {
	d := jsonrpc.Capabilities(&h.Pool.Handlers, true)
	o := &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{RootsV2: d.Roots, Sampling: d.Sampling, Elicitation: d.Elicitation}}
	if d.Sampling != nil {
		o.CreateMessageWithToolsHandler = h.sample
	}
	if d.Elicitation != nil {
		o.ElicitationHandler = h.elicit
	}
	if h.Pool.Handlers.Elicited != nil {
		o.ElicitationCompleteHandler = h.elicited
	}
	return o
}
