package door

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
)

// listResources answers resources/list.
func (c *connection) listResources(_ context.Context, _ *jsonrpc.Request, p *params) (any, error) {
	result := &mcp.ListResourcesResult{Resources: []*mcp.Resource{}}
	result.CacheScope = cacheScope
	var err error
	result.NextCursor, err = eachOnPage(c, p.Cursor, c.client.Resources(),
		func(r *mcpvisor.Resource) resource { return resource{r.Server, r.URI} },
		func(r *mcpvisor.Resource, uri string) {
			listed := *r.Definition
			listed.URI = uri
			result.Resources = append(result.Resources, &listed)
		})
	return result, err
}

// listTemplates answers resources/templates/list.
func (c *connection) listTemplates(_ context.Context, _ *jsonrpc.Request, p *params) (any, error) {
	result := &mcp.ListResourceTemplatesResult{ResourceTemplates: []*mcp.ResourceTemplate{}}
	result.CacheScope = cacheScope
	var err error
	result.NextCursor, err = eachOnPage(c, p.Cursor, c.client.ResourceTemplates(),
		func(t *mcpvisor.ResourceTemplate) resource { return resource{t.Server, t.URITemplate} },
		func(t *mcpvisor.ResourceTemplate, uri string) {
			listed := *t.Definition
			listed.URITemplate = uri
			result.ResourceTemplates = append(result.ResourceTemplates, &listed)
		})
	return result, err
}

// eachOnPage passes each entry of a page to add, with the URI by which it is listed: that of
// its server, or the form that names the server if several have it.
func eachOnPage[T any](c *connection, cursor string, all []T, of func(*T) resource, add func(entry *T, uri string)) (next string, err error) {
	shared := make(map[string]bool, len(all))
	for i := range all {
		uri := of(&all[i]).uri
		_, again := shared[uri]
		shared[uri] = again
	}
	part, next, err := page(all, func(entry *T) key { r := of(entry); return key{r.server, r.uri} }, cursor, c.opts.pageSize)
	if err != nil {
		return "", err
	}
	for i := range part {
		r := of(&part[i])
		if shared[r.uri] {
			add(&part[i], r.qualified())
		} else {
			add(&part[i], r.uri)
		}
	}
	return next, nil
}

// readResource answers resources/read.
func (c *connection) readResource(ctx context.Context, _ *jsonrpc.Request, p *params) (any, error) {
	r, err := c.findResource(p.URI)
	if err != nil {
		return nil, err
	}
	result, err := c.client.ReadResource(ctx, r.server, r.uri, c.callOptions(p.Meta.ProgressToken)...)
	if err != nil {
		return nil, c.protocolError(p.URI, err)
	}
	if result.CacheScope == "" {
		result.CacheScope = cacheScope
	}
	return result, nil
}

// subscribe answers resources/subscribe.
func (c *connection) subscribe(ctx context.Context, _ *jsonrpc.Request, p *params) (any, error) {
	r, err := c.findResource(p.URI)
	if err != nil {
		return nil, err
	}
	c.subscriptions.hold(r)
	added := c.notify.subscribe(r, p.URI)
	if !added { // the session has it already, or has ended
		defer c.subscriptions.release(r)
	}
	// The client is asked in any case: the server may have been replaced meanwhile.
	if err := c.subscriptions.subscribe(ctx, r); err != nil {
		if added {
			c.endSubscription(p.URI)
		}
		return nil, c.protocolError(p.URI, err)
	}
	return struct{}{}, nil
}

// unsubscribe answers resources/unsubscribe. Without a subscription it does nothing.
func (c *connection) unsubscribe(_ context.Context, _ *jsonrpc.Request, p *params) (any, error) {
	c.endSubscription(p.URI)
	return struct{}{}, nil
}

// endSubscription ends a subscription once.
func (c *connection) endSubscription(uri string) {
	if r, ok := c.notify.unsubscribe(uri); ok {
		c.subscriptions.release(r)
	}
}
