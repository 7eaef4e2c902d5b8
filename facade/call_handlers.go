package facade

import (
	"context"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/transport"
)

// CallHandlers answer the requests that a server makes because of certain calls, in place of the
// handlers of the client; see [WithCallHandlers]. A function that is nil refuses its requests.
// The functions may be called by many goroutines at once. Their contexts end with the request of
// the server and, if the call is known, with the call.
//
// Calls with the same *CallHandlers have the same answerer: use one *CallHandlers for all calls of
// one user. Do not change or copy a CallHandlers after its first call.
type CallHandlers struct {
	// Sampling is as in WithSamplingHandler, and SamplingTools as WithSamplingTools.
	Sampling      func(ctx context.Context, r SamplingRequest) (*mcp.CreateMessageWithToolsResult, error)
	SamplingTools bool
	// Elicitation is as in WithElicitationHandler, URLElicitation as in
	// WithURLElicitationHandler.
	Elicitation    func(ctx context.Context, r ElicitationRequest) (*mcp.ElicitResult, error)
	URLElicitation func(ctx context.Context, r ElicitationRequest) (*mcp.ElicitResult, error)
	// Roots returns the directories and files for the server with this name, as file:// URIs.
	Roots func(ctx context.Context, server string) ([]mcp.Root, error)

	once sync.Once // makes handlers
	made transport.CallHandlers
}

// WithCallHandlers makes h answer the requests of the server that belong to this call (sampling,
// elicitation, roots), including those of a task that runs the call. So each call can ask its own
// user. Default, and for nil: the handlers of the client.
//
// This is how a request is known to belong to a call:
//
//   - Since 2026-07-28 it comes in the answer to the call.
//   - Before, over Streamable HTTP, it comes in the response to the POST of the call.
//   - Before, over stdio, HTTP+SSE, a transport of the host, and on the standalone stream of HTTP,
//     nothing names the call. If all calls in flight at the server have the same *CallHandlers,
//     that answers. If none of them has one, the handlers of the client answer. Otherwise the
//     request is refused with a JSON-RPC error that says so, and no user is asked. A call that was
//     given up counts as in flight for one minute, or until the server answers it.
//
// What a server before 2026-07-28 may ask for is declared when its session begins: by the handlers
// of the client, and by [WithDeclared].
func WithCallHandlers(h *CallHandlers) CallOption {
	return func(o *callOptions) {
		if o.Handlers = nil; h != nil {
			o.Handlers = h.transport()
		}
	}
}

// caller returns the caller that the requests of a call are made for; nil: the host.
func (o *callOptions) caller(host *transport.Handlers) *transport.Caller {
	if o.Handlers == nil && !o.Relay && o.LogMessages == nil && !o.WithoutTasks {
		return nil
	}
	c := &transport.Caller{ReturnInput: o.Relay, Log: o.LogMessages, LogLevel: o.LogLevel, NoTasks: o.WithoutTasks}
	if o.Handlers == nil {
		c.Rest = host.Offer()
	} else {
		if c.Handlers = o.Handlers; c.Handlers.RawOffer != (transport.Offer{}) {
			c.Rest = host.Offer()
		}
	}
	if o.Relay || o.Handlers != nil && o.Handlers.Raw != nil {
		c.Capabilities = o.capabilities
	}
	return c
}

// transport returns the handlers as sessions call them, always the same ones.
func (h *CallHandlers) transport() *transport.CallHandlers {
	h.once.Do(func() {
		h.made = transport.CallHandlers{SampleTools: h.SamplingTools, ElicitForm: elicitationHandler(h.Elicitation), ElicitURL: elicitationHandler(h.URLElicitation)}
		if h.Sampling != nil {
			h.made.Sample = func(ctx context.Context, server string, p *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
				return h.Sampling(ctx, SamplingRequest{server, p})
			}
		}
		if h.Roots != nil {
			h.made.Roots = func(ctx context.Context, server string) ([]*mcp.Root, error) {
				roots, err := h.Roots(ctx, server)
				if err != nil {
					return nil, err
				}
				return checkRoots(roots)
			}
		}
	})
	return &h.made
}
