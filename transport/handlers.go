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
// does not return then is left behind: no request waits for it.
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
