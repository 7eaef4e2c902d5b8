package facade

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/transport"
)

// CallTool calls a tool by its qualified name ("fs/list_directory") or its alias.
// args is anything that marshals to a JSON object, raw JSON of one, or nil.
//
// A tool's own failure (isError) is a result, not an error. Errors:
// ErrUnknownServer, ErrUnknownTool, ErrInvalid (arguments; nothing was sent),
// ErrUnavailable (see RetryAfter), ErrEvicted, ErrCrashed, ErrTimeout,
// ErrCanceled, ErrOverloaded, ErrRPC, ErrProtocol, ErrClosed. Each is an
// *Error whose Outcome says whether the request reached the server.
func (c *Client) CallTool(ctx context.Context, tool string, args any, opts ...CallOption) (*mcp.CallToolResult, error) {
	arguments, err := object(args)
	if err != nil {
		return nil, withOp(err, "call "+tool)
	}
	held := shares.Get().(*budget.Share)
	got, err := c.call(ctx, tool, arguments, opts, held)
	var result *mcp.CallToolResult
	if err == nil {
		result, err = decodeToolResult(ctx, &got)
	}
	held.Release()
	shares.Put(held)
	if err != nil {
		return nil, withOp(err, "call "+tool)
	}
	return result, nil
}

// shares are empty, for calls that may get a large result.
var shares = sync.Pool{New: func() any { return new(budget.Share) }}

// CallToolRaw is Call with raw arguments and the result member of the answer,
// verbatim.
func (c *Client) CallToolRaw(ctx context.Context, tool string, args json.RawMessage, opts ...CallOption) (json.RawMessage, error) {
	arguments, err := rawObject(args)
	if err != nil {
		return nil, withOp(err, "call "+tool)
	}
	got, err := c.call(ctx, tool, arguments, opts, nil)
	if err != nil {
		return nil, withOp(err, "call "+tool)
	}
	return got.raw, nil
}

func (c *Client) call(ctx context.Context, tool string, arguments json.RawMessage, opts []CallOption, held *budget.Share) (reply, error) {
	o := c.callOptions(opts)
	view, name, err := c.resolve(ctx, tool, o)
	if err != nil {
		return reply{}, err
	}
	const head, middle = `{"name":`, `,"arguments":`
	params := make([]byte, 0, len(head)+len(name)+len(middle)+len(arguments)+3)
	params = append(params, head...)
	params = appendQuoted(params, name)
	params = append(params, middle...)
	params = append(params, arguments...)
	params = append(params, '}')
	return c.request(ctx, view, transport.Request{Method: "tools/call", Target: name, Params: params, Held: held}, o)
}

// appendQuoted appends a name as a JSON string.
func appendQuoted(b []byte, name string) []byte {
	for i := range len(name) {
		if c := name[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(name) // a string always marshals
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"')
}

// ReadResource reads a resource of a server by its URI. The URI need not be listed: it
// may come from a template. Errors as for [Client.Call].
func (c *Client) ReadResource(ctx context.Context, server, uri string, opts ...CallOption) (*mcp.ReadResourceResult, error) {
	op := "read " + server + " " + uri
	got, err := c.ask(ctx, op, server, transport.Request{Method: "resources/read", Target: uri}, map[string]any{"uri": uri}, opts)
	if err != nil {
		return nil, err
	}
	return decode(ctx, &got, op, "contents", func(whole, part *mcp.ReadResourceResult) {
		whole.Contents = append(whole.Contents, part.Contents...)
	})
}

// GetPrompt gets a prompt of a server with its arguments. Errors as for [Client.Call].
func (c *Client) GetPrompt(ctx context.Context, server, name string, args map[string]string, opts ...CallOption) (*mcp.GetPromptResult, error) {
	op := "prompt " + mcpvisor.Qualify(server, name)
	params := map[string]any{"name": name}
	if len(args) > 0 {
		params["arguments"] = args
	}
	got, err := c.ask(ctx, op, server, transport.Request{Method: "prompts/get", Target: name}, params, opts)
	if err != nil {
		return nil, err
	}
	return decode(ctx, &got, op, "messages", func(whole, part *mcp.GetPromptResult) {
		whole.Messages = append(whole.Messages, part.Messages...)
	})
}

func (c *Client) ask(ctx context.Context, op, server string, r transport.Request, params any, opts []CallOption) (reply, error) {
	var err error
	if r.Params, err = json.Marshal(params); err != nil {
		return reply{}, &mcpvisor.Error{Server: server, Op: op, Kind: mcpvisor.KindInvalid, Outcome: mcpvisor.OutcomeNotSent, Cause: err}
	}
	r.Held = new(budget.Share)
	o := c.callOptions(opts)
	view, err := c.server(ctx, server, o)
	if err != nil {
		return reply{}, withOp(err, op)
	}
	got, err := c.request(ctx, view, r, o)
	if err != nil {
		r.Held.Release()
		return reply{}, withOp(err, op)
	}
	return got, nil
}

// pauses between tries on one and the same incarnation, which does not say
// that it is down.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// request sends one request. A call that waits for its server waits again if
// nothing was sent because the server was down, and only then.
func (c *Client) request(ctx context.Context, v *actors.View, r transport.Request, o callOptions) (reply, error) {
	r.Track, r.Progress = true, o.progress
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		began := time.Now()
		raw, err := c.rt.Request(ctx, v, r, o.timeout)
		if err == nil || !o.waitReady {
			return reply{raw, v, began, o.timeout, r.Held}, err
		}
		var e *mcpvisor.Error
		if !errors.As(err, &e) || e.Kind != mcpvisor.KindUnavailable || e.Outcome != mcpvisor.OutcomeNotSent {
			return reply{}, err
		}
		next, waited := c.rt.AwaitReady(ctx, v.Name)
		if waited != nil {
			return reply{}, waited
		}
		if next.Gen == v.Gen && next.Epoch == v.Epoch {
			t := time.NewTimer(max(pause, e.RetryAfter))
			select {
			case <-t.C:
			case <-ctx.Done():
				t.Stop()
				return reply{}, err
			}
		}
		v = next
	}
}

func (c *Client) callOptions(opts []CallOption) callOptions {
	o := callOptions{timeout: c.opts.callTimeout, waitReady: c.opts.waitReady}
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	return o
}

// server finds a server's view, waiting for it to be ready if asked to.
func (c *Client) server(ctx context.Context, name string, o callOptions) (*actors.View, error) {
	s := c.rt.Snapshot()
	v := s.Server(name)
	if v == nil {
		return nil, unknownServer(s, name)
	}
	if !o.waitReady {
		return v, nil
	}
	return c.rt.AwaitReady(ctx, name)
}

// resolve finds the server and the server's own name of a tool.
func (c *Client) resolve(ctx context.Context, tool string, o callOptions) (*actors.View, string, error) {
	server, name, ok := mcpvisor.SplitName(tool)
	if !ok {
		server, name, ok = c.rt.Snapshot().SplitAlias(tool)
	}
	if !ok {
		return nil, "", unknownTool(c.rt.Snapshot(), tool)
	}
	v, err := c.server(ctx, server, o)
	if err != nil {
		return nil, "", err
	}
	_, found := v.Catalog.Tool(name)
	switch {
	case found:
	case !v.Spec.Tools.Allows(name):
		return nil, "", hiddenTool(server)
	case v.Catalog != nil:
		return nil, "", unknownTool(c.rt.Snapshot(), tool)
	}
	return v, name, nil
}

// object makes the arguments a JSON object, or says why that is impossible.
func object(args any) (json.RawMessage, error) {
	switch a := args.(type) {
	case nil:
		return json.RawMessage("{}"), nil
	case json.RawMessage:
		return rawObject(a)
	case []byte:
		return rawObject(a)
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, invalid(fmt.Errorf("the arguments cannot be marshalled to JSON: %w", err))
	}
	return rawObject(raw)
}

// maxDepth is how deep arguments may be nested. The message around them takes
// two levels more, and few JSON readers go beyond 10,000.
const maxDepth = 9000

// What is wrong with arguments, in words for a programmer.
var (
	errNoObject = errors.New("the arguments are not a JSON object; pass a struct, a map with string keys, or raw JSON of an object")
	errNoJSON   = fmt.Errorf("the arguments are not valid JSON, or nested deeper than %d levels", maxDepth)
)

// rawObject checks that the arguments are a JSON object. None at all are an
// empty one.
func rawObject(raw json.RawMessage) (json.RawMessage, error) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return json.RawMessage("{}"), nil
	case raw[0] != '{':
		return nil, invalid(errNoObject)
	case !jsonscan.ValidWithin(raw, maxDepth):
		return nil, invalid(errNoJSON)
	}
	return raw, nil
}

func invalid(err error) *mcpvisor.Error {
	return &mcpvisor.Error{Kind: mcpvisor.KindInvalid, Outcome: mcpvisor.OutcomeNotSent, Cause: err}
}

// decode decodes a result, and gives back what it holds. list and add are for
// [decodeLarge].
func decode[T any](ctx context.Context, got *reply, op, list string, add func(whole, part *T)) (*T, error) {
	defer got.held.Release() // a small result can have come in a large answer
	if got.isLarge() {
		v, err := decodeLarge(ctx, got, list, add)
		return v, withOp(err, op)
	}
	v := new(T)
	err := checkResult(got.raw)
	if err == nil {
		err = json.Unmarshal(got.raw, v)
	}
	if err == nil {
		err = holes(v)
	}
	if err != nil {
		return nil, withOp(unreadable(err), op)
	}
	return v, nil
}

// holes refuses a list in which something is missing: whoever goes through it
// would stumble over a nil.
func holes(result any) error {
	missing := false
	empty := func(c mcp.Content) bool {
		r, embedded := c.(*mcp.EmbeddedResource)
		return c == nil || embedded && r.Resource == nil
	}
	switch r := result.(type) {
	case *mcp.ReadResourceResult:
		missing = slices.Contains(r.Contents, nil)
	case *mcp.GetPromptResult:
		missing = slices.ContainsFunc(r.Messages, func(m *mcp.PromptMessage) bool { return m == nil || empty(m.Content) })
	case *mcp.CallToolResult:
		missing = slices.ContainsFunc(r.Content, empty)
	}
	if missing {
		return errors.New("an entry of the result is missing")
	}
	return nil
}
