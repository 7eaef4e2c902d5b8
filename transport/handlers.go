package transport

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Handlers are what servers may ask of this client. What is nil is neither
// declared as a capability nor answered. They are shared by all servers and
// called by many goroutines; server is who asks.
//
// A handler's context ends when the server takes its question back, when the
// call that the question is known to belong to fails, and when the session dies. One that
// goes on nevertheless is left behind: nobody waits for it.
type Handlers struct {
	// Sample answers sampling/createMessage. Requests with tools come only with
	// SampleTools.
	Sample      func(ctx context.Context, server string, p *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error)
	SampleTools bool
	// ElicitForm answers elicitation/create with a form, ElicitURL with a URL.
	ElicitForm func(ctx context.Context, server string, p *mcp.ElicitParams) (*mcp.ElicitResult, error)
	ElicitURL  func(ctx context.Context, server string, p *mcp.ElicitParams) (*mcp.ElicitResult, error)
	// Elicited hears notifications/elicitation/complete.
	Elicited func(ctx context.Context, server, elicitationID string)
	// Roots answers roots/list, and tells servers when it changes.
	Roots *Roots
}

// declared is the capabilities that follow from handlers, as the protocol
// writes them. The go-sdk's own type cannot leave out roots.
type declared struct {
	Roots       *mcp.RootCapabilities        `json:"roots,omitempty"`
	Sampling    *mcp.SamplingCapabilities    `json:"sampling,omitempty"`
	Elicitation *mcp.ElicitationCapabilities `json:"elicitation,omitempty"`
}

// Capabilities says what a client with these handlers is capable of. Changes of the
// roots are announced in the legacy era only.
func Capabilities(h *Handlers, legacy bool) (d declared) {
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

// clientOptions makes a client of the go-sdk's that declares and serves what there
// are handlers for.
func (a *Handler) clientOptions() *mcp.ClientOptions {
	d := Capabilities(&a.Handlers, true)
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
