package inbound

import (
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// clientOptions makes a client of the go-sdk's that declares and serves what there
// are handlers for.
func (a *Handler) clientOptions() *mcp.ClientOptions {
	d := jsonrpc.Capabilities(&a.Handlers, true)
	o := &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{RootsV2: d.Roots, Sampling: d.Sampling, Elicitation: d.Elicitation}}
	if d.Sampling != nil {
		o.CreateMessageWithToolsHandler = a.sample
	}
	if d.Elicitation != nil {
		o.ElicitationHandler = a.elicit
	}
	if a.Handlers.Elicited != nil {
		o.ElicitationCompleteHandler = a.elicited
	}
	return o
}
