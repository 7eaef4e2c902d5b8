package facade

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// Servers may ask something of the host while they work on its calls: to let
// its model say something, to ask its user, to name its directories. A client
// declares and answers what it has a handler for, and nothing else.
//
// Handlers are called by many goroutines, for all servers; up to 64 at a time
// for one server, whose further requests wait. What one of them does costs the
// one request: a panic, a nil and an error are answered with an error. The text
// of an error goes to no server, unless it is a *jsonrpc.Error itself, whose code,
// message and data do; one that is wrapped, as the errors of calls are, is not
// told. A handler's context ends when the server does not want the answer any
// more, when the call that the request belongs to fails (as far as that is known:
// servers before 2026-07-28 on a pair of pipes do not say which it is), when the
// session ends, and when the client closes; one that goes on nevertheless is left
// behind.

// SamplingRequest is a server's wish to have the host's model say something
// (sampling/createMessage).
type SamplingRequest struct {
	// Server is who asks.
	Server string
	// CreateMessageWithToolsParams is what for: Messages, SystemPrompt, MaxTokens,
	// and, with WithSampleTools, Tools and ToolChoice.
	*mcp.CreateMessageWithToolsParams
}

// ElicitationRequest is a server's wish to ask the host's user (elicitation/create).
type ElicitationRequest struct {
	// Server is who asks. Tell the user.
	Server string
	// ElicitParams is what: Message with RequestedSchema for a form; Message, URL
	// and ElicitationID for a URL.
	*mcp.ElicitParams
}

// ElicitationComplete says that what a server sent the user to a URL for is done
// there (notifications/elicitation/complete).
type ElicitationComplete struct {
	Server        string
	ElicitationID string
}

// WithSamplingHandler has f answer what servers ask of the host's model. Default: the
// client declares no sampling.
func WithSamplingHandler(f func(ctx context.Context, r SamplingRequest) (*mcp.CreateMessageWithToolsResult, error)) Option {
	return func(o *options) {
		o.handlers.Sample = nil
		if f == nil {
			return
		}
		o.handlers.Sample = func(ctx context.Context, server string, p *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
			return f(ctx, SamplingRequest{server, p})
		}
	}
}

// WithSamplingTools says that the handler of WithOnSample minds Tools and
// ToolChoice. Default: such requests are refused.
func WithSamplingTools() Option { return func(o *options) { o.handlers.SampleTools = true } }

// WithElicitationHandler has f ask the user to fill in a form. Take time: no call times
// out by its idle clock meanwhile, though Timeouts.HardMax holds. Default: the
// client declares no such elicitation.
func WithElicitationHandler(f func(ctx context.Context, r ElicitationRequest) (*mcp.ElicitResult, error)) Option {
	return func(o *options) { o.handlers.ElicitForm = elicitation(f) }
}

// WithURLElicitationHandler has f ask the user to visit a URL, of http or https. Show it
// whole, and do not open it unasked. "accept" means that the user is willing;
// see WithOnElicitComplete for the rest. Default: the client declares no such
// elicitation.
func WithURLElicitationHandler(f func(ctx context.Context, r ElicitationRequest) (*mcp.ElicitResult, error)) Option {
	return func(o *options) { o.handlers.ElicitURL = elicitation(f) }
}

func elicitation(f func(context.Context, ElicitationRequest) (*mcp.ElicitResult, error)) func(context.Context, string, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, server string, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return f(ctx, ElicitationRequest{server, p})
	}
}

// WithElicitationCompleteHandler has f told when a URL has served its purpose. Not every
// server says so.
func WithElicitationCompleteHandler(f func(ctx context.Context, done ElicitationComplete)) Option {
	return func(o *options) {
		o.handlers.Elicited = nil
		if f == nil {
			return
		}
		o.handlers.Elicited = func(ctx context.Context, server, id string) { f(ctx, ElicitationComplete{server, id}) }
	}
}

// WithRoots lets servers ask for the roots, which [Client.SetRoots] changes;
// there may be none to begin with. Default: the client declares no roots. A URI
// that is none of file:// is an error of New.
func WithRoots(roots ...mcp.Root) Option {
	return func(o *options) {
		list, err := rootList(roots)
		o.roots, o.wrong = transport.NewRoots(list), errors.Join(o.wrong, err)
		o.handlers.Roots = o.roots
	}
}

// SetRoots replaces the roots, and tells the servers that have a session of an
// era in which that is done; modern ones ask when they need them. It waits for
// nobody. Errors: ErrInvalid (a URI that is none of file://, or a client
// without WithRoots).
func (c *Client) SetRoots(roots ...mcp.Root) error {
	const op = "set roots"
	list, err := rootList(roots)
	if err == nil && c.opts.roots == nil {
		err = errors.New("the client declares no roots; pass WithRoots to New")
	}
	if err != nil {
		return &mcpvisor.Error{Op: op, Kind: mcpvisor.KindInvalid, Cause: err}
	}
	c.opts.roots.Set(list)
	return nil
}

func rootList(roots []mcp.Root) ([]*mcp.Root, error) {
	list := make([]*mcp.Root, 0, len(roots))
	for _, r := range slices.Clone(roots) {
		if u, err := url.Parse(r.URI); err != nil || u.Scheme != "file" {
			return nil, fmt.Errorf("root %q is no URI of a file; write it as file:///path", r.URI)
		}
		list = append(list, &r)
	}
	return list, nil
}
