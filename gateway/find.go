package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/gateway/internal/listing"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/offer"
	"github.com/mcpvisor/mcpvisor/gateway/internal/resource"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
	"github.com/mcpvisor/mcpvisor/internal/toolname"
)

// Which tool, prompt or resource a client means by a name. Names of tools and prompts are those that the gateway
// lists, qualified names and aliases.

// findPrompt returns the server of a prompt, and the server's own name for it. name is an alias or a
// qualified name. The prompt need not be listed, because its server may be down. An alias that several
// prompts share is refused.
func (g *gateway) findPrompt(ctx context.Context, name string) (listing.Owner, error) {
	if _, ok := g.catalog.Last().PromptByName[name]; !ok {
		g.awaitServers(ctx, g.mayHave(name))
	}
	if o, ok := g.catalog.Get().PromptByName[name]; ok {
		return o, nil
	}
	if o, split := splitName(name); split && g.view.Rules() == nil {
		return o, nil
	}
	return g.findNamed(ctx, "prompt", name)
}

// splitName splits a qualified name or an alias; false for any other name.
func splitName(name string) (o listing.Owner, split bool) {
	if o.Server, o.Name, split = mcpvisor.SplitName(name); !split {
		o.Server, o.Name, split = mcpvisor.SplitAlias(name)
	}
	return o, split
}

// findNamed finds a tool or prompt that is not listed under that name. If a profile offers it, and its server
// has never been ready, it waits for the server as a call does. A hidden tool or prompt gets the same
// error as one that does not exist.
func (g *gateway) findNamed(ctx context.Context, what, name string) (listing.Owner, error) {
	longest := toolname.MaxAliasBytes
	if g.view.Rules() != nil {
		longest = maxURIBytes
	}
	if len(name) > longest {
		return listing.Owner{}, g.unknown(what, name)
	}
	found := g.named(what, name)
	if len(found) == 0 && g.view.Rules() != nil && g.awaitOwner(ctx, name) {
		l := g.catalog.Get()
		if o, ok := l.PromptByName[name]; ok && what == "prompt" {
			return o, nil
		}
		if server, own, ok := mcpvisor.SplitName(l.ToolByName[name]); ok && what == "tool" {
			return listing.Owner{Server: server, Name: own}, nil
		}
		found = g.named(what, name)
	}
	switch len(found) {
	case 0:
		return listing.Owner{}, g.unknown(what, name)
	case 1:
		return found[0], nil
	}
	return listing.Owner{}, message.InvalidParams("several " + what + "s have the name " + message.Quote(name) + "; use " +
		message.Shorten(found[0].Qualified()) + " or " + message.Shorten(found[1].Qualified()))
}

// named returns the offered tools or prompts that have a qualified name or alias.
func (g *gateway) named(what, name string) (found []listing.Owner) {
	for known := range g.view.Catalogs(g.view.Rules()) {
		for i := range known.Tools {
			if t := &known.Tools[i]; what == "tool" && (t.Name == name || t.Alias == name) {
				found = append(found, listing.Owner{Server: t.Server, Name: t.OriginalName})
			}
		}
		for i := range known.Prompts {
			p := &known.Prompts[i]
			if o := (listing.Owner{Server: p.Server, Name: p.OriginalName}); what == "prompt" && (o.Qualified() == name || mcpvisor.Alias(o.Server, o.Name) == name) {
				found = append(found, o)
			}
		}
	}
	return found
}

// awaitOwner waits for a server of the profile that has never been ready, if the name begins with the
// name of that server. It reports whether it has waited.
func (g *gateway) awaitOwner(ctx context.Context, name string) bool {
	for _, server := range g.view.NeverReady(g.view.Rules()) {
		if rest, ok := strings.CutPrefix(strings.TrimPrefix(name, toolname.AliasPrefix), server); ok && (strings.HasPrefix(rest, "__") || strings.HasPrefix(rest, "/")) {
			g.awaitServers(ctx, []string{server})
			return true
		}
	}
	return false
}

// mayHave returns the servers that have never been ready, if one of them may get a name without its server.
func (g *gateway) mayHave(name string) []string {
	if names := g.terms().Names; names == nil || names.Prefix != PrefixOnConflict && names.Prefix != PrefixNever || len(name) > toolname.MaxAliasBytes || strings.Contains(name, toolname.Separator) || strings.Contains(name, "/") {
		return nil
	}
	return g.view.NeverReady(g.view.Rules())
}

// awaitServers waits, as a call does, for the lists of servers that have never been ready. It does not wake them.
func (g *gateway) awaitServers(ctx context.Context, servers []string) {
	if g.opts.maxWait <= 0 {
		return
	}
	ctx, cancel := overdue.WithTimeout(ctx, g.opts.maxWait)
	defer cancel()
	for _, server := range servers {
		if status, ok := g.client.ServerStatus(server); ok && (status.RetryAt == nil || time.Until(*status.RetryAt) < g.opts.maxWait) {
			_ = relay.Of(g.client).AwaitLists(ctx, server)
		}
	}
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

// offersTool reports whether the client may still use what a call of the tool has made: a reload may have
// hidden the tool or its server.
func (g *gateway) offersTool(tool string) bool {
	rules := g.view.Rules()
	if known, ok := g.client.Tool(tool); ok {
		return rules.OffersServer(known.Server) && rules.OffersTool(&known)
	}
	server, own, _ := mcpvisor.SplitName(tool) // its server has withdrawn it
	return rules == nil || rules.OffersServer(server) && rules.OffersName(server, own)
}

// offersTask reports whether the client may still ask about a task of the tool.
func (g *gateway) offersTask(server, tool string) bool {
	return g.view.Rules().OffersServer(server) && g.offersTool(tool)
}

// findResource returns the server that a URI belongs to: the only one that lists it, or has a matching
// template. A server that is down counts with what it offered last: its resources do not fall to another
// server. Of several servers the configuration says which one comes first; else the URI is refused.
func (g *gateway) findResource(ctx context.Context, uri string) (resource.Name, error) {
	return g.findURI(ctx, "resource", uri, func(known *relay.Catalog) bool {
		steps := resource.MaxSteps
		return hasResource(known, uri, &steps)
	})
}

// hasResource reports whether a server lists a URI, or has a template for it.
func hasResource(known *relay.Catalog, uri string, steps *int) bool {
	return hasEntry(known.Resources, uri, func(r *mcpvisor.Resource) string { return r.URI }) || resource.Matches(known.Templates, uri, steps)
}

// findTemplate returns the server that lists a resource template.
func (g *gateway) findTemplate(ctx context.Context, template string) (resource.Name, error) {
	return g.findURI(ctx, "resource template", template, func(known *relay.Catalog) bool {
		return hasEntry(known.Templates, template, func(t *mcpvisor.ResourceTemplate) string { return t.URITemplate })
	})
}

// findURI returns the server of those for which has is true that a URI belongs to. While a server that may come
// before it has never been ready, findURI waits for that as a call does, and then refuses the URI.
func (g *gateway) findURI(ctx context.Context, what, uri string, has func(*relay.Catalog) bool) (resource.Name, error) {
	for waited := false; ; waited = true {
		rules := g.view.Rules()
		switch r, named := resource.Split(uri, g.view.ServerNames()); {
		case len(uri) > maxURIBytes:
			return r, message.InvalidParams(fmt.Sprintf("the URI is %d bytes long; use at most %d", len(uri), maxURIBytes))
		case named && (rules == nil || rules.OffersURI(r.URI) && slices.Contains(g.view.ServerNames(), r.Server)):
			return r, nil // without a profile, the client reports what is wrong with the server
		case named || !rules.OffersURI(uri) || resource.IsUI(uri) && g.catalog.Had(resource.Authority(uri)):
			return g.theOnly(what, uri, nil)
		}
		having, first, before := g.ownersOf(rules, uri, has)
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

// ownersOf returns the servers for which has is true, the one of them that the URI belongs to (empty: none), and the
// servers that have never been ready and may come before it.
func (g *gateway) ownersOf(rules *offer.Rules, uri string, has func(*relay.Catalog) bool) (having []string, first string, before []string) {
	unknown, order := g.view.NeverReady(rules), g.terms().Order
	for known := range g.view.Servers(rules) {
		if has(&known) {
			having = append(having, known.Server)
		}
	}
	first = resource.First(having, order)
	return having, first, resource.Before(unknown, first, order, g.catalog.ListsBare(listing.Owner{Server: first, Name: uri}))
}

// maxURIBytes is the longest URI that a session looks up.
const maxURIBytes = 64 << 10

// maxReferences bounds the URIs that are looked up for one result. Further ones name their server.
const maxReferences = 1_000

// withReferences returns a result of a server with the URIs by which clients read what it names.
func (g *gateway) withReferences(server string, result json.RawMessage) json.RawMessage {
	if !resource.MayRefer(result) {
		return result
	}
	return g.references(resource.Name{Server: server}, "").InResult(result)
}

// references returns the URIs by which clients read what a result of a server names. Only URIs that would not lead to
// that server change. The answer to a read has the URI that was asked for, where the server has its own.
func (g *gateway) references(of resource.Name, asked string) resource.References {
	left, steps := maxReferences, resource.MaxListSteps // for all of one result
	return func(uri string) string {
		server, r := of.Server, resource.Name{Server: of.Server, URI: uri}
		switch {
		case asked != "" && uri == of.URI:
			return asked
		case server == "" || len(uri) > maxURIBytes: // it cannot be read
			return uri
		case left == 0:
			return r.Qualified()
		}
		if left--; g.terms().NamesServer(uri, g.view.ServerNames()) {
			return r.Qualified()
		}
		having, first, before := g.ownersOf(g.view.Rules(), uri, func(known *relay.Catalog) bool { return steps <= 0 || hasResource(known, uri, &steps) })
		isWeb := strings.HasPrefix(uri, "https://") || strings.HasPrefix(uri, "http://") // a host may load it itself
		if first == server && len(before) == 0 || len(having) == 0 && !resource.IsUI(uri) || isWeb && !slices.Contains(having, server) {
			return uri
		}
		return r.Qualified()
	}
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
