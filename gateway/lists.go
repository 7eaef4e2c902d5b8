package gateway

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/listing"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/internal/toolname"
)

// listOf answers a request for one of the lists.
func listOf(list func(*listing.Listing) *listing.List) func(*connection, *request, *params) (any, error) {
	return func(c *connection, _ *request, p *params) (any, error) {
		return list(c.catalog.Get()).Page(p.Cursor, c.opts.pageSize, p.modern())
	}
}

// getPrompt answers prompts/get.
func (c *connection) getPrompt(r *request, p *params) (any, error) {
	rounds := readRounds(r.Params, p)
	if !rounds.valid() {
		return nil, errInputResponses
	}
	answerTo := func(err error) (json.RawMessage, error) { return nil, c.protocolError(p.Name, err) }
	if result, held, err := c.resumeHeld(r, p.modern(), &rounds, p.callMeta(), answerTo); held {
		return result, err
	}
	server, name, err := c.findPrompt(r.ctx, p.Name)
	if err != nil {
		return nil, err
	}
	return c.perform(r, &upstreamRequest{
		server: server, meta: metaOf(r.Params), of: p.callMeta(), modern: p.modern(), rounds: rounds,
		send: func(ctx context.Context, opts ...facade.CallOption) (json.RawMessage, error) {
			var result any
			err := c.whenUp(ctx, server, func(client *facade.Client) (err error) {
				if rounds.relays() {
					result, err = readRound[mcp.GetPromptResult](client.GetPromptRaw(ctx, mcpvisor.Qualify(server, name), p.Arguments, opts...))
				} else {
					result, err = client.GetPrompt(ctx, mcpvisor.Qualify(server, name), p.Arguments, opts...)
				}
				return err
			})
			return encodeRound(result, err, p.modern())
		},
		answerTo: answerTo, offered: func() bool { return c.view.Rules().OffersPrompt(server, name) },
	})
}

// findPrompt finds the server of a prompt, and the server's own name for it, by alias or
// qualified name. It need not be listed, because the server may be down. An alias that
// several prompts share belongs to none of them.
func (c *connection) findPrompt(ctx context.Context, name string) (server, own string, err error) {
	if o, ok := c.catalog.Last().PromptByName[name]; ok {
		return o.Server, o.Name, nil
	}
	if c.profile() != nil {
		o, err := c.findOffered(ctx, "prompt", name, c.offeredPrompt)
		return o.Server, o.Name, err
	}
	if server, own, ok := mcpvisor.SplitName(name); ok {
		return server, own, nil
	}
	if server, own, ok := mcpvisor.SplitAlias(name); ok {
		return server, own, nil
	}
	if len(name) > toolname.MaxAliasBytes {
		return "", "", unknown("prompt", name)
	}
	for known := range c.client.Catalogs() {
		for _, p := range known.Prompts {
			if mcpvisor.Alias(p.Server, p.OriginalName) != name {
				continue
			}
			if server != "" {
				return "", "", message.InvalidParams("several prompts have the name " + message.Quote(name) + "; use " +
					message.Shorten(mcpvisor.Qualify(server, own)) + " or " + message.Shorten(mcpvisor.Qualify(p.Server, p.OriginalName)))
			}
			server, own = p.Server, p.OriginalName
		}
	}
	if server == "" {
		return "", "", unknown("prompt", name)
	}
	return server, own, nil
}

// unknown is the error about the name of a tool or prompt that is not offered.
func unknown(what, name string) *jsonrpc.Error {
	return message.InvalidParams("unknown " + what + " " + message.Quote(name) + "; " + what + "s/list has the names")
}

// readResource answers resources/read.
func (c *connection) readResource(r *request, p *params) (any, error) {
	if result, ok, err := c.readResult(p); ok {
		return result, err
	}
	rounds := readRounds(r.Params, p)
	if !rounds.valid() {
		return nil, errInputResponses
	}
	answerTo := func(err error) (json.RawMessage, error) { return nil, c.protocolError(p.URI, err) }
	if result, held, err := c.resumeHeld(r, p.modern(), &rounds, p.callMeta(), answerTo); held {
		return result, err
	}
	found, err := c.findResource(p.URI)
	if err != nil {
		return nil, notFound(err, p)
	}
	return c.perform(r, &upstreamRequest{
		server: found.Server, meta: metaOf(r.Params), of: p.callMeta(), modern: p.modern(), rounds: rounds,
		send: func(ctx context.Context, opts ...facade.CallOption) (json.RawMessage, error) {
			var whole any
			err := c.whenUp(ctx, found.Server, func(client *facade.Client) (err error) {
				if rounds.relays() {
					whole, err = readRound[mcp.ReadResourceResult](client.ReadResourceRaw(ctx, found.Server, found.URI, opts...))
				} else {
					whole, err = client.ReadResource(ctx, found.Server, found.URI, opts...)
				}
				return err
			})
			if result, ok := whole.(*mcp.ReadResourceResult); ok && err == nil && result.CacheScope == "" {
				result.CacheScope = listing.CacheScope
			}
			return encodeRound(whole, err, p.modern())
		},
		answerTo: answerTo, offered: func() bool { return c.view.OffersUpdate(found.Server, found.URI) },
	})
}

// notFound words the error of a resource that no server has, as the version of the request does.
func notFound(err error, p *params) error {
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) || wire.Code != codeResourceNotFound {
		return err
	}
	same := *wire
	same.Data, _ = json.Marshal(map[string]string{"uri": message.Shorten(p.URI)})
	if p.modern() {
		same.Code = jsonrpc.CodeInvalidParams
	}
	return &same
}

// subscribe answers resources/subscribe.
func (c *connection) subscribe(r *request, p *params) (any, error) {
	found, err := c.findResource(p.URI)
	if err != nil {
		return nil, err
	}
	s, err := c.holdSubscription(c.notify, found)
	if err != nil {
		return nil, c.protocolError(p.URI, err)
	}
	added := c.notify.subscribe(s, p.URI)
	if !added { // the session has it already, or has ended
		defer c.releaseSubscription(s)
	}
	// The client is asked in any case: the server may have been replaced meanwhile.
	if err := c.subscribeNow(r.ctx, s); err != nil {
		if added {
			c.endSubscription(p.URI)
		}
		return nil, c.protocolError(p.URI, err)
	}
	if added {
		c.dropReleased(s)
	}
	return struct{}{}, nil
}

// unsubscribe answers resources/unsubscribe. Without a subscription it does nothing.
func (c *connection) unsubscribe(_ *request, p *params) (any, error) {
	c.endSubscription(p.URI)
	return struct{}{}, nil
}

// endSubscription ends a subscription once.
func (c *connection) endSubscription(uri string) {
	if s, ok := c.notify.unsubscribe(uri); ok {
		c.releaseSubscription(s)
	}
}
