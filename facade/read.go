package facade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// ReadResource reads a resource of a server by its URI. The URI need not be listed: it
// may be the expansion of a template (MCP, server, resources: resources/read). Errors
// as for [Client.CallTool], ErrUnknownTool excepted.
func (c *Client) ReadResource(ctx context.Context, server, uri string, opts ...CallOption) (*mcp.ReadResourceResult, error) {
	return readDecoded[mcp.ReadResourceResult](ctx, c, Read{Server: server, URI: uri}, opts)
}

// ReadResourceRaw is [Client.ReadResource] that returns the result as the server sent it,
// undecoded: the JSON of an mcp.ReadResourceResult. Members that the go-sdk does not know
// survive.
func (c *Client) ReadResourceRaw(ctx context.Context, server, uri string, opts ...CallOption) (json.RawMessage, error) {
	return c.readRaw(ctx, Read{Server: server, URI: uri}, opts)
}

// GetPrompt gets a prompt by its qualified name, as in "fs/summarize" ([mcpvisor.Prompt].Name),
// with its arguments (MCP, server, prompts: prompts/get). The prompt need not be listed.
// Errors as for [Client.CallTool], ErrUnknownTool excepted; a name without a server gives
// ErrInvalid.
func (c *Client) GetPrompt(ctx context.Context, prompt string, args map[string]string, opts ...CallOption) (*mcp.GetPromptResult, error) {
	r, err := promptRead(prompt, args)
	if err != nil {
		return nil, err
	}
	return readDecoded[mcp.GetPromptResult](ctx, c, r, opts)
}

// GetPromptRaw is [Client.GetPrompt] that returns the result as the server sent it,
// undecoded: the JSON of an mcp.GetPromptResult. Members that the go-sdk does not know
// survive.
func (c *Client) GetPromptRaw(ctx context.Context, prompt string, args map[string]string, opts ...CallOption) (json.RawMessage, error) {
	r, err := promptRead(prompt, args)
	if err != nil {
		return nil, err
	}
	return c.readRaw(ctx, r, opts)
}

// promptRead splits the qualified name of a prompt.
func promptRead(prompt string, args map[string]string) (Read, error) {
	server, name, ok := mcpvisor.SplitName(prompt)
	if !ok {
		return Read{}, &mcpvisor.Error{Op: "prompt " + prompt, Kind: mcpvisor.KindInvalid, Outcome: mcpvisor.OutcomeNotSent,
			Cause: fmt.Errorf("%q names no server; write server/prompt, as Prompts lists it", truncateName(prompt))}
	}
	return Read{Server: server, Prompt: name, Arguments: args}, nil
}

// Read is a read of a resource, or of a prompt, as a [ReadInterceptor] sees it.
type Read struct {
	// Server is the name of the server.
	Server string
	// URI is that of the resource; "" for a prompt.
	URI string
	// Prompt is the server's own name of the prompt; "" for a resource.
	Prompt string
	// Arguments are those of the prompt. Do not modify the map; set another one.
	Arguments map[string]string
}

// request returns the request, its params, and what an error calls it.
func (r *Read) request() (request transport.Request, params map[string]any, op string) {
	if r.Prompt == "" {
		return transport.Request{Method: "resources/read", Target: r.URI}, map[string]any{"uri": r.URI}, "read " + r.Server + " " + r.URI
	}
	params = map[string]any{"name": r.Prompt}
	if len(r.Arguments) > 0 {
		params["arguments"] = r.Arguments
	}
	return transport.Request{Method: "prompts/get", Target: r.Prompt}, params, "prompt " + mcpvisor.Qualify(r.Server, r.Prompt)
}

// ReadNext continues with a read: to the next interceptor, or to the server. The result is
// the JSON of an mcp.ReadResourceResult or an mcp.GetPromptResult, as the server has sent it.
// Do not modify its bytes.
type ReadNext func(ctx context.Context, r Read) (json.RawMessage, error)

// ReadInterceptor is called around each read of a resource and of a prompt, in the goroutine of
// the caller. Like an [Interceptor] it calls next to continue, and returns the result of next or
// another one. It may refuse with an error of its own, answer from a cache, or change what is
// read, but not turn a resource into a prompt or the reverse. Calling next again is safe.
type ReadInterceptor func(ctx context.Context, r Read, next ReadNext) (json.RawMessage, error)

// WithReadInterceptor calls f around ReadResource, ReadResourceRaw, GetPrompt and
// GetPromptRaw: the place for permissions, audit and caches of the host. The option may be
// given several times; the first is the outermost. f must be safe for concurrent use.
// Default, and for nil: none.
func WithReadInterceptor(f ReadInterceptor) Option {
	return func(o *options) {
		if f != nil {
			o.readInterceptors = append(o.readInterceptors, f)
		}
	}
}

// readRaw reads and returns the result undecoded.
func (c *Client) readRaw(ctx context.Context, r Read, opts []CallOption) (json.RawMessage, error) {
	return c.interceptRead(ctx, r, func(ctx context.Context, r Read) (json.RawMessage, error) {
		request, params, op := r.request()
		var q tracked
		defer q.abandon()
		got, err := c.sendTo(ctx, &q, r.Server, request, params, opts)
		if q.end(c, err) != nil {
			return nil, withOp(err, op)
		}
		got.share.Release()
		return got.raw, nil
	})
}

// readDecoded reads and returns the result decoded.
func readDecoded[T any](ctx context.Context, c *Client, r Read, opts []CallOption) (*T, error) {
	var (
		mu   sync.Mutex      // an interceptor may call next in several goroutines
		last *T              // the last result of a server
		sent json.RawMessage // its JSON
	)
	rawMethod := "ReadResourceRaw"
	if r.Prompt != "" {
		rawMethod = "GetPromptRaw"
	}
	raw, err := c.interceptRead(ctx, r, func(ctx context.Context, r Read) (json.RawMessage, error) {
		request, params, op := r.request()
		var q tracked
		defer q.abandon()
		got, err := c.sendTo(ctx, &q, r.Server, request, params, opts)
		if err != nil {
			return nil, withOp(q.end(c, err), op)
		}
		result, err := decodeResult[T](ctx, &got)
		if q.end(c, withRawHint(err, rawMethod)) != nil {
			return nil, withOp(withRawHint(err, rawMethod), op)
		}
		mu.Lock()
		defer mu.Unlock()
		last, sent = result, got.raw
		return got.raw, nil
	})
	mu.Lock()
	defer mu.Unlock()
	_, _, op := r.request()
	switch {
	case err != nil:
		return nil, err
	case len(raw) > 0 && len(raw) == len(sent) && &raw[0] == &sent[0]:
		return last, nil
	}
	view := c.rt.Snapshot().Server(r.Server)
	if view == nil {
		return nil, withOp(unknownServer(c.rt.Snapshot(), r.Server), op)
	}
	share := c.intercepted.Share()
	result, err := decodeResult[T](ctx, &response{raw: raw, view: view, began: time.Now(), timeout: c.callOptions(opts).timeout, share: &share})
	if err != nil {
		return nil, badReadResult(&r, err)
	}
	return result, nil
}

// interceptRead calls the interceptors around send.
func (c *Client) interceptRead(ctx context.Context, r Read, send ReadNext) (json.RawMessage, error) {
	if len(c.opts.readInterceptors) == 0 {
		return send(ctx, r)
	}
	isPrompt := r.Prompt != ""
	var call func(ctx context.Context, next Read, index int) (json.RawMessage, error)
	call = func(ctx context.Context, next Read, index int) (json.RawMessage, error) {
		if isPrompt != (next.Prompt != "") || isPrompt && next.URI != "" {
			return nil, badReadResult(&r, errReadChanged)
		}
		if index == len(c.opts.readInterceptors) {
			return send(ctx, next)
		}
		return c.opts.readInterceptors[index](ctx, next, func(ctx context.Context, r Read) (json.RawMessage, error) {
			return call(ctx, r, index+1)
		})
	}
	raw, err := call(ctx, r, 0)
	switch {
	case err != nil:
		return nil, err
	case len(raw) == 0:
		return nil, badReadResult(&r, errNoResult)
	case !json.Valid(raw):
		return nil, badReadResult(&r, errNotJSON)
	}
	return raw, nil
}

// errReadChanged is the cause of a read that an interceptor made another kind of read.
var errReadChanged = errors.New("an interceptor made a read of a resource one of a prompt, or the reverse")

// badReadResult is the error of a read whose interceptors returned what cannot be passed on.
func badReadResult(r *Read, cause error) *mcpvisor.Error {
	_, _, op := r.request()
	return &mcpvisor.Error{Server: r.Server, Kind: mcpvisor.KindInvalid, Outcome: mcpvisor.OutcomeUnknown, Op: op, Cause: &interceptorError{cause},
		Hint: "return what next has returned, the JSON of a result, or an error"}
}
