package gateway

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
)

// anyObject is the schema of a tool that has none, which the specification requires.
var anyObject = json.RawMessage(`{"type":"object"}`)

// listTools answers tools/list.
func (c *connection) listTools(_ *request, p *params) (any, error) {
	part, next, err := page(c.client.Tools(), func(t *mcpvisor.Tool) key { return key{t.Server, t.OriginalName} }, p.Cursor, c.opts.pageSize)
	if err != nil {
		return nil, err
	}
	result := &mcp.ListToolsResult{NextCursor: next, Tools: make([]*mcp.Tool, 0, len(part))}
	result.CacheScope = cacheScope
	for _, t := range part {
		tool := *t.Definition
		tool.Name = t.Alias
		if tool.InputSchema == nil {
			tool.InputSchema = anyObject
		}
		result.Tools = append(result.Tools, visibleTool(tool))
	}
	return result, nil
}

// listPrompts answers prompts/list.
func (c *connection) listPrompts(_ *request, p *params) (any, error) {
	part, next, err := page(c.client.Prompts(), func(t *mcpvisor.Prompt) key { return key{t.Server, t.OriginalName} }, p.Cursor, c.opts.pageSize)
	if err != nil {
		return nil, err
	}
	result := &mcp.ListPromptsResult{NextCursor: next, Prompts: make([]*mcp.Prompt, 0, len(part))}
	result.CacheScope = cacheScope
	for _, t := range part {
		prompt := *t.Definition
		prompt.Name = mcpvisor.Alias(t.Server, t.OriginalName)
		result.Prompts = append(result.Prompts, visiblePrompt(prompt))
	}
	return result, nil
}

// getPrompt answers prompts/get.
func (c *connection) getPrompt(r *request, p *params) (any, error) {
	server, name, err := c.findPrompt(p.Name)
	if err != nil {
		return nil, err
	}
	result, err := c.client.GetPrompt(r.ctx, mcpvisor.Qualify(server, name), p.Arguments, c.callOptions(r, p.Meta.ProgressToken)...)
	if err != nil {
		return nil, c.protocolError(p.Name, err)
	}
	return result, nil
}

// findPrompt finds the server of a prompt, and the server's own name for it, by alias or
// qualified name. It need not be listed, because the server may be down. An alias that
// several prompts share belongs to none of them.
func (c *connection) findPrompt(name string) (server, own string, err error) {
	if server, own, ok := mcpvisor.SplitName(name); ok {
		return server, own, nil
	}
	if server, own, ok := mcpvisor.SplitAlias(name); ok {
		return server, own, nil
	}
	if len(name) > mcpvisor.MaxAliasBytes {
		return "", "", unknownPrompt(name)
	}
	for known := range c.client.Catalogs() {
		for _, p := range known.Prompts {
			if mcpvisor.Alias(p.Server, p.OriginalName) != name {
				continue
			}
			if server != "" {
				return "", "", invalidParams("several prompts have the name " + quote(name) + "; use " +
					shorten(mcpvisor.Qualify(server, own)) + " or " + shorten(mcpvisor.Qualify(p.Server, p.OriginalName)))
			}
			server, own = p.Server, p.OriginalName
		}
	}
	if server == "" {
		return "", "", unknownPrompt(name)
	}
	return server, own, nil
}

func unknownPrompt(name string) *jsonrpc.Error {
	return invalidParams("unknown prompt " + quote(name) + "; prompts/list has the names")
}

// listResources answers resources/list.
func (c *connection) listResources(_ *request, p *params) (any, error) {
	result := &mcp.ListResourcesResult{Resources: []*mcp.Resource{}}
	result.CacheScope = cacheScope
	var err error
	result.NextCursor, err = eachOnPage(c, p.Cursor, func(known mcpvisor.Catalog) []mcpvisor.Resource { return known.Resources },
		func(r *mcpvisor.Resource) resource { return resource{r.Server, r.URI} },
		func(r *mcpvisor.Resource, uri string) {
			listed := *r.Definition
			listed.URI = uri
			result.Resources = append(result.Resources, visibleResource(listed))
		})
	return result, err
}

// listTemplates answers resources/templates/list.
func (c *connection) listTemplates(_ *request, p *params) (any, error) {
	result := &mcp.ListResourceTemplatesResult{ResourceTemplates: []*mcp.ResourceTemplate{}}
	result.CacheScope = cacheScope
	var err error
	result.NextCursor, err = eachOnPage(c, p.Cursor, func(known mcpvisor.Catalog) []mcpvisor.ResourceTemplate { return known.Templates },
		func(t *mcpvisor.ResourceTemplate) resource { return resource{t.Server, t.URITemplate} },
		func(t *mcpvisor.ResourceTemplate, uri string) {
			listed := *t.Definition
			listed.URITemplate = uri
			result.ResourceTemplates = append(result.ResourceTemplates, visibleTemplate(listed))
		})
	return result, err
}

// eachOnPage passes each entry of a page to add, with the URI by which it is listed: that of
// its server, or the form that names the server if several have it. As for findResource, those
// that are down count, so that the URI stays the same while they are.
func eachOnPage[T any](c *connection, cursor string, of func(mcpvisor.Catalog) []T, resourceOf func(*T) resource,
	add func(entry *T, uri string)) (next string, err error) {
	var all []T
	shared := map[string]bool{}
	for known := range c.client.Catalogs() {
		list := of(known)
		for i := range list {
			uri := resourceOf(&list[i]).uri
			_, again := shared[uri]
			shared[uri] = again
		}
		if !known.Unavailable {
			all = append(all, list...)
		}
	}
	part, next, err := page(all, func(entry *T) key { r := resourceOf(entry); return key{r.server, r.uri} }, cursor, c.opts.pageSize)
	if err != nil {
		return "", err
	}
	for i := range part {
		r := resourceOf(&part[i])
		if shared[r.uri] {
			add(&part[i], r.qualified())
		} else {
			add(&part[i], r.uri)
		}
	}
	return next, nil
}

// readResource answers resources/read.
func (c *connection) readResource(r *request, p *params) (any, error) {
	found, err := c.findResource(p.URI)
	if err != nil {
		return nil, err
	}
	result, err := c.client.ReadResource(r.ctx, found.server, found.uri, c.callOptions(r, p.Meta.ProgressToken)...)
	if err != nil {
		return nil, c.protocolError(p.URI, err)
	}
	if result.CacheScope == "" {
		result.CacheScope = cacheScope
	}
	return result, nil
}

// subscribe answers resources/subscribe.
func (c *connection) subscribe(r *request, p *params) (any, error) {
	found, err := c.findResource(p.URI)
	if err != nil {
		return nil, err
	}
	if !c.holdSubscription(found) {
		return nil, invalidParams(fmt.Sprintf("the session has %d subscriptions, which is the most; end some before you subscribe to others", cap(c.slots)))
	}
	added := c.out.notify.subscribe(found, p.URI)
	if !added { // the session has it already, or has ended
		defer c.releaseSubscription(found)
	}
	// The client is asked in any case: the server may have been replaced meanwhile.
	if err := c.subscriptions.subscribe(r.ctx, found); err != nil {
		if added {
			c.endSubscription(p.URI)
		}
		return nil, c.protocolError(p.URI, err)
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
	if r, ok := c.out.notify.unsubscribe(uri); ok {
		c.releaseSubscription(r)
	}
}

// holdSubscription counts a subscription of the session. It reports false if it has as many
// as it may.
func (c *connection) holdSubscription(r resource) bool {
	select {
	case c.slots <- struct{}{}:
		c.subscriptions.hold(r)
		return true
	default:
		return false
	}
}

// releaseSubscription ends what holdSubscription began. It does not wait; the subscription
// counts until its server has been told.
func (c *connection) releaseSubscription(r resource) {
	c.subscriptions.release(r, func() { <-c.slots })
}

// cacheScope is that of all lists. Their ttlMs is 0: they change when a server does.
const cacheScope = "private"

// key is the place of an entry in a list: lists are sorted by server, and then by name.
type key struct{ server, name string }

func compareKeys(a, b key) int {
	return cmp.Or(strings.Compare(a.server, b.server), strings.Compare(a.name, b.name))
}

// page returns the page of a list that follows cursor, and the cursor of the next page. A
// cursor names the last entry of its page, so that no entry is left out or listed twice
// because others came or went meanwhile.
func page[T any](list []T, keyOf func(*T) key, cursor string, size int) (part []T, next string, err error) {
	if cursor != "" {
		after, ok := decodeCursor(cursor)
		if !ok {
			return nil, "", invalidParams("the cursor is not one of this session; list again without it")
		}
		at, found := slices.BinarySearchFunc(list, after, func(entry T, k key) int { return compareKeys(keyOf(&entry), k) })
		if found {
			at++
		}
		list = list[at:]
	}
	if len(list) <= size {
		return list, "", nil
	}
	return list[:size], encodeCursor(keyOf(&list[size-1])), nil
}

func encodeCursor(k key) string {
	return base64.RawURLEncoding.EncodeToString([]byte(k.server + "/" + k.name))
}

func decodeCursor(cursor string) (k key, ok bool) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return key{}, false
	}
	k.server, k.name, ok = strings.Cut(string(text), "/")
	return k, ok
}
