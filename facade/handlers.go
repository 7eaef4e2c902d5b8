package facade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/task"
	"github.com/mcpvisor/mcpvisor/transport"
)

// SamplingRequest is a server's request for text of the host's language model
// (sampling/createMessage).
type SamplingRequest struct {
	// Server is the name of the server that sent it.
	Server string
	// CreateMessageWithToolsParams are its parameters: Messages, SystemPrompt,
	// MaxTokens; with WithSamplingTools also Tools and ToolChoice.
	*mcp.CreateMessageWithToolsParams
}

// ElicitationRequest is a server's request for input of the user
// (elicitation/create).
type ElicitationRequest struct {
	// Server is the name of the server that sent it. Show it to the user.
	Server string
	// ElicitParams are its parameters: Message and RequestedSchema for a form; Message,
	// URL and ElicitationID for a URL.
	*mcp.ElicitParams
}

// WithSamplingHandler sets the handler for sampling requests. A result with an empty Role counts as
// the assistant's. The handler may be called by many goroutines at once; its context ends with the
// request. While it runs, the timeout of the call is paused; Timeouts.CallTotal still applies.
// Default, and for nil: the client does not declare the sampling capability.
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

// WithSamplingTools declares that the sampling handler supports Tools and ToolChoice.
// Default: sampling requests with tools are refused.
func WithSamplingTools() Option { return func(o *options) { o.handlers.SampleTools = true } }

// WithElicitationHandler sets the handler that asks the user to fill in a form. The
// result's Action is "accept", with Content, or "decline" or "cancel". Fields missing
// from Content take the defaults of the schema; Content that does not match the schema
// is refused, and a request whose schema is not a flat form never reaches the handler.
//
// While the handler runs, the timeout of the call is paused; Timeouts.CallTotal still applies. It
// may be called by many goroutines at once; its context ends with the request. Default, and for
// nil: the client does not declare elicitation by form.
func WithElicitationHandler(f func(ctx context.Context, r ElicitationRequest) (*mcp.ElicitResult, error)) Option {
	return func(o *options) { o.handlers.ElicitForm = elicitationHandler(f) }
}

// WithURLElicitationHandler sets the handler that asks the user to visit a URL, http or
// https. Show the whole URL, and do not open it without consent. The result's Action
// "accept" means that the user agrees to visit it; FollowElicitations of package relay
// learns of the end. Otherwise as [WithElicitationHandler].
func WithURLElicitationHandler(f func(ctx context.Context, r ElicitationRequest) (*mcp.ElicitResult, error)) Option {
	return func(o *options) { o.handlers.ElicitURL = elicitationHandler(f) }
}

// elicitationHandler adapts a handler of the host to that of the transport.
func elicitationHandler(f func(context.Context, ElicitationRequest) (*mcp.ElicitResult, error)) func(context.Context, string, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, server string, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return f(ctx, ElicitationRequest{server, p})
	}
}

// elicitationFollowers are the functions that relay.Methods.FollowElicitations has added to one client. Safe for concurrent
// use.
type elicitationFollowers struct {
	mu  sync.Mutex // guards all
	all map[*func(server, id string)]struct{}
}

// followElicitations makes the list of followers of the ends of URL elicitations, empty at first.
func followElicitations(o *options) {
	e := new(elicitationFollowers)
	o.elicitations = e
	o.handlers.Elicited = func(_ context.Context, server, id string) {
		e.mu.Lock()
		all := slices.Collect(maps.Keys(e.all))
		e.mu.Unlock()
		for _, f := range all {
			(*f)(server, id)
		}
	}
}

// FollowElicitations implements relay.Methods.
func (c relayed) FollowElicitations(f func(server, elicitationID string)) (stop func()) {
	e := c.opts.elicitations
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all == nil {
		e.all = map[*func(server, id string)]struct{}{}
	}
	e.all[&f] = struct{}{}
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.all, &f)
	}
}

// WithRoots declares the roots capability and sets the roots: directories and files
// that servers may work on, as file:// URIs. All servers get the same. The list may be
// empty, and [Client.SetRoots] changes it. A URI that is not a file:// URI is an error of
// [New]. Default: the client does not declare roots.
func WithRoots(roots ...mcp.Root) Option {
	return func(o *options) {
		list, err := checkRoots(roots)
		o.roots, o.err = transport.NewRoots(list), errors.Join(o.err, err)
		o.handlers.Roots = o.roots
	}
}

// Declared names the kinds of requests that calls can answer; see [WithDeclared].
type Declared struct {
	Sampling, SamplingTools     bool
	Elicitation, URLElicitation bool
	Roots                       bool
	// RootsListChanged, with Roots: servers before 2026-07-28 are told that the roots have changed, by
	// [Client.SetRoots], or by NotifyRootsChanged of package facade/relay.
	RootsListChanged bool
}

// WithDeclared declares capabilities for which the client has no handler but its calls do
// ([WithCallHandlers]). Servers before 2026-07-28 learn once, when a session begins, what the
// client can answer. A request that was not declared is refused even if a call has a handler for
// it. For servers since 2026-07-28 each request declares what its call answers, and this option
// has no effect. Default: what the handlers of the client answer is declared, and nothing else.
func WithDeclared(d Declared) Option {
	return func(o *options) {
		o.handlers.Declared = d.offer()
		o.handlers.DeclaredRoots = nil
		if d.Roots && d.RootsListChanged {
			o.handlers.DeclaredRoots = transport.NewRoots(nil)
		}
	}
}

func (d Declared) offer() transport.Offer {
	return transport.Offer{Sample: d.Sampling, SampleTools: d.SamplingTools, ElicitForm: d.Elicitation, ElicitURL: d.URLElicitation, Roots: d.Roots}
}

// UIExtension is the name of the extension for user interfaces (MCP Apps, 2026-01-26), and UISettings are those of a
// host that shows HTML.
const (
	UIExtension = "io.modelcontextprotocol/ui"
	UISettings  = `{"mimeTypes":["text/html;profile=mcp-app"]}`
)

// WithExtensions declares extensions of MCP to all servers, by name, with their settings: JSON objects. Many servers
// list what belongs to an extension only to clients that declare it. The program has to do what the extension demands of a
// client; for user interfaces it shows the resource that the _meta of a tool names:
//
//	client, err := facade.New(facade.WithExtensions(map[string]json.RawMessage{facade.UIExtension: json.RawMessage(facade.UISettings)}))
//
// Of several WithExtensions the last one counts. Default: none, except that for tasks since 2026-07-28, which the client
// speaks itself and always declares. An error of [New]: settings that are no object, a name without a slash or of that for tasks.
func WithExtensions(settings map[string]json.RawMessage) Option {
	return func(o *options) {
		o.handlers.Extensions = make(map[string]json.RawMessage, len(settings))
		for name, value := range settings {
			var object map[string]json.RawMessage
			if err := json.Unmarshal(value, &object); err != nil || object == nil || name == task.Extension || !strings.Contains(name, "/") {
				o.err = errors.Join(o.err, fmt.Errorf("the extension %q cannot be declared: give it a name with a slash, other than that for tasks, and a JSON object as settings, as in {}", name))
				continue
			}
			text, _ := json.Marshal(object) // it was decoded
			o.handlers.Extensions[name] = text
		}
	}
}

// Extensions implements relay.Methods.
func (c relayed) Extensions() map[string]json.RawMessage { return c.opts.handlers.Extensions }

// SetRoots replaces the roots and notifies the servers whose protocol version has such
// a notification; others ask for the roots when they need them. It does not wait for
// the servers. Errors: ErrInvalid (a URI that is not a file:// URI, or a client without
// [WithRoots]).
func (c *Client) SetRoots(roots ...mcp.Root) error {
	list, err := checkRoots(roots)
	if err == nil && c.opts.roots == nil {
		err = errors.New("the client declares no roots; pass WithRoots to New")
	}
	if err != nil {
		return &mcpvisor.Error{Op: "set roots", Kind: mcpvisor.ErrInvalid, Cause: err}
	}
	c.opts.roots.Set(list)
	return nil
}

// NotifyRootsChanged implements relay.Methods.
func (c relayed) NotifyRootsChanged() {
	if roots := c.opts.handlers.DeclaredRoots; roots != nil {
		roots.Touch()
	}
}

// checkRoots copies roots, or says which of them is not a file:// URI.
func checkRoots(roots []mcp.Root) ([]*mcp.Root, error) {
	list := make([]*mcp.Root, 0, len(roots))
	for _, r := range roots {
		if u, err := url.Parse(r.URI); err != nil || u.Scheme != "file" {
			return nil, fmt.Errorf("root %q must be a file:// URI; write it as file:///path", r.URI)
		}
		list = append(list, &r)
	}
	return list, nil
}
