package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/gateway/internal/listing"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// listOf answers a request for one of the lists.
func listOf(list func(*listing.Listing) *listing.List) func(*request) (any, error) {
	return func(r *request) (any, error) {
		p := r.params
		return list(r.gateway.catalog.Get()).Page(p.cursor, r.gateway.opts.pageSize, p.modern())
	}
}

// getPrompt answers prompts/get.
func (r *request) getPrompt() (any, error) {
	p := r.params
	answerTo := func(err error) (json.RawMessage, error) { return nil, r.session.protocolError(p.name, err) }
	if result, held, err := r.resumeHeld(answerTo); held {
		return result, err
	}
	found, err := r.gateway.findPrompt(r.ctx, p.name)
	if err != nil {
		return nil, err
	}
	server, name := found.Server, found.Name
	return (&upstreamRequest{
		request: r, server: server,
		send: func(ctx context.Context, opts ...facade.CallOption) (result json.RawMessage, err error) {
			err = r.session.tenancy.whenUp(ctx, server, func(client *facade.Client) (err error) {
				result, err = relay.Of(client).GetPromptRaw(ctx, mcpvisor.Qualify(server, name), p.promptArguments, opts...)
				return err
			})
			return r.gateway.withReferences(server, result), err
		},
		answerTo: answerTo, offered: func() bool { return r.gateway.view.Rules().OffersPrompt(server, name) },
	}).perform()
}

// readResource answers resources/read.
func (r *request) readResource() (any, error) {
	p := r.params
	if result, ok, err := r.readResult(); ok {
		return result, err
	}
	answerTo := func(err error) (json.RawMessage, error) { return nil, r.session.protocolError(p.uri, err) }
	if result, held, err := r.resumeHeld(answerTo); held {
		return result, err
	}
	found, err := r.gateway.findResource(r.ctx, p.uri)
	if err != nil {
		return nil, notFound(err, p)
	}
	return (&upstreamRequest{
		request: r, server: found.Server,
		send: func(ctx context.Context, opts ...facade.CallOption) (result json.RawMessage, err error) {
			err = r.session.tenancy.whenUp(ctx, found.Server, func(client *facade.Client) (err error) {
				result, err = relay.Of(client).ReadResourceRaw(ctx, found.Server, found.URI, opts...)
				return err
			})
			return withCaching(r.gateway.references(found, p.uri).InResult(result)), err
		},
		answerTo: answerTo, offered: func() bool { return r.gateway.view.OffersUpdate(found.Server, found.URI) },
	}).perform()
}

// withCaching adds what 2026-07-28 requires to say about caching to the contents of a resource.
func withCaching(result json.RawMessage) json.RawMessage {
	var missing []byte
	for _, m := range [][2]string{{"ttlMs", "0"}, {"cacheScope", `"` + listing.CacheScope + `"`}} {
		if jsonscan.Member(result, m[0]) == nil {
			missing = fmt.Appendf(missing, "%q:%s,", m[0], m[1])
		}
	}
	if len(missing) == 0 || jsonscan.Member(result, "contents") == nil { // the server requires input
		return result
	}
	return slices.Concat([]byte("{"), missing, bytes.TrimPrefix(result, []byte("{")))
}

// notFound gives the error of a resource that no server has the code of the version of the request.
func notFound(err error, p *params) error {
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) || wire.Code != codeResourceNotFound {
		return err
	}
	same := *wire
	same.Data, _ = json.Marshal(map[string]string{"uri": message.Shorten(p.uri)})
	if p.modern() {
		same.Code = jsonrpc.CodeInvalidParams
	}
	return &same
}

// complete answers completion/complete (MCP, server, utilities, completion).
func (r *request) complete() (any, error) {
	p := r.params
	p.declared, p.tasks, p.next = 0, false, relay.Continuation{} // it needs no input
	request := facade.CompletionRequest{Argument: p.argument.Name, Value: p.argument.Value, Context: p.context.Arguments}
	var server string
	switch p.ref.Type {
	case "ref/prompt":
		found, err := r.gateway.findPrompt(r.ctx, p.ref.Name)
		if err != nil {
			return nil, err
		}
		server, request.Prompt = found.Server, found.Name
	case "ref/resource":
		found, err := r.gateway.findTemplate(r.ctx, p.ref.URI)
		if err != nil {
			return nil, err
		}
		server, request.Template = found.Server, found.URI
	default:
		return nil, message.InvalidParams("the type of ref is " + message.Quote(p.ref.Type) + "; use ref/prompt or ref/resource")
	}
	return (&upstreamRequest{
		request: r, server: server,
		send: func(ctx context.Context, opts ...facade.CallOption) (json.RawMessage, error) {
			var details *mcp.CompletionResultDetails
			err := r.session.tenancy.whenUp(ctx, server, func(client *facade.Client) (err error) {
				details, err = client.Complete(ctx, server, request, opts...)
				return err
			})
			if err != nil {
				return nil, err
			}
			return message.Result(&mcp.CompleteResult{Completion: *details}, p.modern())
		},
		answerTo: func(err error) (json.RawMessage, error) {
			return nil, r.session.protocolError(p.ref.Name+p.ref.URI, err)
		},
	}).perform()
}
