package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/listing"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/offer"
	"github.com/mcpvisor/mcpvisor/gateway/internal/resource"
	"github.com/mcpvisor/mcpvisor/internal/toolname"
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
	server, name, err := r.gateway.findPrompt(r.ctx, p.name)
	if err != nil {
		return nil, err
	}
	return (&upstreamRequest{
		request: r, server: server,
		send: func(ctx context.Context, opts ...facade.CallOption) (json.RawMessage, error) {
			var result any
			err := r.session.tenancy.whenUp(ctx, server, func(client *facade.Client) (err error) {
				if p.relays() {
					result, err = decodeResult[mcp.GetPromptResult](client.GetPromptRaw(ctx, mcpvisor.Qualify(server, name), p.promptArguments, opts...))
				} else {
					result, err = client.GetPrompt(ctx, mcpvisor.Qualify(server, name), p.promptArguments, opts...)
				}
				return err
			})
			return encodeResult(result, err, p.modern())
		},
		answerTo: answerTo, offered: func() bool { return r.gateway.view.Rules().OffersPrompt(server, name) },
	}).perform()
}

// findPrompt returns the server of a prompt, and the server's own name for it. name is an alias or a
// qualified name. The prompt need not be listed, because its server may be down. An alias that several
// prompts share is refused.
func (g *gateway) findPrompt(ctx context.Context, name string) (server, own string, err error) {
	if _, ok := g.catalog.Last().PromptByName[name]; !ok {
		g.awaitServers(ctx, g.mayHave(name))
	}
	if o, ok := g.catalog.Get().PromptByName[name]; ok {
		return o.Server, o.Name, nil
	}
	if g.profile() != nil {
		o, err := g.findOffered(ctx, "prompt", name, g.offeredPrompt)
		return o.Server, o.Name, err
	}
	if server, own, ok := mcpvisor.SplitName(name); ok {
		return server, own, nil
	}
	if server, own, ok := mcpvisor.SplitAlias(name); ok {
		return server, own, nil
	}
	if len(name) > toolname.MaxAliasBytes {
		return "", "", g.unknown("prompt", name)
	}
	for known := range g.client.Catalogs() {
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
		return "", "", g.unknown("prompt", name)
	}
	return server, own, nil
}

// unknown returns the error for the name of a tool or prompt that is not offered. It suggests names that this
// session lists, but none for the name of one that is withheld.
func (g *gateway) unknown(what, name string) *jsonrpc.Error {
	if reason, withheld := g.catalog.Last().WithheldName[listing.Owner{Server: what, Name: name}]; withheld {
		return message.InvalidParams("the " + what + " " + message.Quote(name) + " is not offered: " + reason)
	}
	names := "; " + what + "s/list has the names"
	if unknown := g.mayHave(name); len(unknown) > 0 {
		names = "; server " + unknown[0] + " is not ready yet, and may have it" + names
	} else if similar := g.catalog.Similar(what, name); len(similar) > 0 {
		names = "; did you mean " + strings.Join(similar, ", ") + "?"
	}
	e := message.InvalidParams("unknown " + what + " " + message.Quote(name) + names)
	e.Data, _ = json.Marshal(facade.ModelError{Code: "unknown_" + what, Message: e.Message}) // it always marshals
	return e
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
		send: func(ctx context.Context, opts ...facade.CallOption) (json.RawMessage, error) {
			var whole any
			err := r.session.tenancy.whenUp(ctx, found.Server, func(client *facade.Client) (err error) {
				if p.relays() {
					whole, err = decodeResult[mcp.ReadResourceResult](client.ReadResourceRaw(ctx, found.Server, found.URI, opts...))
				} else {
					whole, err = client.ReadResource(ctx, found.Server, found.URI, opts...)
				}
				return err
			})
			if result, ok := whole.(*mcp.ReadResourceResult); ok && err == nil && result.CacheScope == "" {
				result.CacheScope = listing.CacheScope
			}
			return encodeResult(whole, err, p.modern())
		},
		answerTo: answerTo, offered: func() bool { return r.gateway.view.OffersUpdate(found.Server, found.URI) },
	}).perform()
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

// findResource returns the server that a URI belongs to: the only one that lists it, or has a matching
// template. A server that is down counts with what it offered last: its resources do not fall to another
// server. Of several servers the configuration says which one comes first; else the URI is refused.
func (g *gateway) findResource(ctx context.Context, uri string) (resource.Name, error) {
	return g.findURI(ctx, "resource", uri, func(known *mcpvisor.Catalog) bool {
		steps := resource.MaxSteps
		return hasEntry(known.Resources, uri, func(r *mcpvisor.Resource) string { return r.URI }) || resource.Matches(known.Templates, uri, &steps)
	})
}

// findTemplate returns the server that lists a resource template.
func (g *gateway) findTemplate(ctx context.Context, template string) (resource.Name, error) {
	return g.findURI(ctx, "resource template", template, func(known *mcpvisor.Catalog) bool {
		return hasEntry(known.Templates, template, func(t *mcpvisor.ResourceTemplate) string { return t.URITemplate })
	})
}

// findURI returns the server of those for which has is true that a URI belongs to. While a server that may come
// before it has never been ready, findURI waits for that as a call does, and then refuses the URI.
func (g *gateway) findURI(ctx context.Context, what, uri string, has func(*mcpvisor.Catalog) bool) (resource.Name, error) {
	for waited := false; ; waited = true {
		rules := g.view.Rules()
		if r, named, err := checkURI(uri); err != nil || named {
			return r, cmp.Or(err, g.checkNamed(rules, what, uri, r))
		}
		if !rules.OffersURI(uri) {
			return g.theOnly(what, uri, nil)
		}
		unknown, order := g.view.NeverReady(rules), g.terms().Order
		var having []string // the servers
		for known := range g.view.Servers(rules) {
			if has(&known) {
				having = append(having, known.Server)
			}
		}
		first := resource.First(having, order)
		before := resource.Before(unknown, first, order, g.catalog.ListsBare(listing.Owner{Server: first, Name: uri}))
		switch {
		case len(before) == 0 || waited && first == "":
			return g.theOnly(what, uri, having)
		case waited:
			return resource.Name{}, message.InvalidParams("the " + what + " " + message.Quote(uri) + " may be that of server " + before[0] +
				", which is not ready yet; for that of server " + first + " use " + message.Shorten(resource.Name{Server: first, URI: uri}.Qualified()))
		}
		g.awaitServers(ctx, before)
	}
}

// checkNamed refuses a URI that names its server, if a profile does not offer it. The error is that of a
// URI that does not exist. Without a profile, the client reports what is wrong with the server.
func (g *gateway) checkNamed(rules *offer.Rules, what, uri string, r resource.Name) error {
	if rules == nil || rules.OffersURI(r.URI) && slices.Contains(g.view.ServerNames(), r.Server) {
		return nil
	}
	_, err := g.theOnly(what, uri, nil)
	return err
}

// maxURIBytes is the longest URI that a session looks up.
const maxURIBytes = 64 << 10

// checkURI refuses a URI that is too long, and splits a URI that names its server.
func checkURI(uri string) (r resource.Name, named bool, err error) {
	if len(uri) > maxURIBytes {
		return r, false, message.InvalidParams(fmt.Sprintf("the URI is %d bytes long; use at most %d", len(uri), maxURIBytes))
	}
	r, named = resource.Split(uri)
	return r, named, nil
}

// hasEntry reports whether a sorted list has an entry with the key.
func hasEntry[T any](list []T, key string, keyOf func(*T) string) bool {
	_, found := slices.BinarySearchFunc(list, key, func(entry T, key string) int { return strings.Compare(keyOf(&entry), key) })
	return found
}

// codeResourceNotFound is the code of versions before 2026-07-28; see notFound.
const codeResourceNotFound = -32002

// maxNamed bounds the servers that an error names.
const maxNamed = 8

// theOnly returns the resource if one server has it, or comes first of those that do, and an error otherwise.
func (g *gateway) theOnly(what, uri string, servers []string) (resource.Name, error) {
	if first := resource.First(servers, g.terms().Order); first != "" {
		return resource.Name{Server: first, URI: uri}, nil
	}
	var text strings.Builder
	if len(servers) > 1 {
		text.WriteString("several servers have the " + what + " " + message.Quote(uri) + "; use one of")
		for i, server := range servers {
			if i == maxNamed {
				fmt.Fprintf(&text, ", or that of %d more", len(servers)-i)
				break
			}
			text.WriteString(" " + message.Shorten(resource.Name{Server: server, URI: uri}.Qualified()))
		}
		return resource.Name{}, message.InvalidParams(text.String())
	}
	text.WriteString("no server has the " + what + " " + message.Quote(uri))
	for i, server := range g.view.NeverReady(g.view.Rules()) {
		if i == maxNamed {
			text.WriteString("; and so may others")
			break
		}
		text.WriteString("; server " + server + " is not ready, and may have it")
	}
	return resource.Name{}, &jsonrpc.Error{Code: codeResourceNotFound, Message: text.String()}
}

// complete answers completion/complete (MCP, server, utilities, completion).
func (r *request) complete() (any, error) {
	p := r.params
	p.declared, p.tasks, p.next = 0, false, facade.Continuation{} // it needs no input
	request := facade.CompletionRequest{Argument: p.argument.Name, Value: p.argument.Value, Context: p.context.Arguments}
	var server string
	switch p.ref.Type {
	case "ref/prompt":
		var err error
		if server, request.Prompt, err = r.gateway.findPrompt(r.ctx, p.ref.Name); err != nil {
			return nil, err
		}
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
