package gateway

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/offer"
	"github.com/mcpvisor/mcpvisor/gateway/internal/resource"
)

// findResource finds the server that a URI belongs to. A server that lists the URI is before
// those with a template that the URI may be an expansion of, and of these the longest
// literal beginning counts. What a server that is down offered last counts like what the
// others offer: its resources do not fall to another server. If the URI belongs to several
// servers, none gets it.
func (c *connection) findResource(uri string) (resource.Name, error) {
	rules := c.view.Rules()
	if r, named, err := checkURI(uri); err != nil || named {
		return r, cmp.Or(err, c.checkNamed(rules, "resource", uri, r))
	}
	if !rules.OffersURI(uri) {
		return c.theOnly("resource", uri, nil)
	}
	var listing, expanding []string // the servers
	longest := 0                    // literal beginning of the templates of expanding
	for known := range c.view.Servers(rules) {
		if hasEntry(known.Resources, uri, func(r *mcpvisor.Resource) string { return r.URI }) {
			listing = append(listing, known.Server)
		}
		literal := resource.LongestMatch(known.Templates, uri)
		if literal > longest {
			expanding = nil
		}
		if longest = max(longest, literal); literal >= 0 && literal == longest {
			expanding = append(expanding, known.Server)
		}
	}
	if len(listing) > 0 {
		return c.theOnly("resource", uri, listing)
	}
	return c.theOnly("resource", uri, expanding)
}

// findTemplate finds the server that lists a resource template, in the same way.
func (c *connection) findTemplate(template string) (resource.Name, error) {
	rules := c.view.Rules()
	if r, named, err := checkURI(template); err != nil || named {
		return r, cmp.Or(err, c.checkNamed(rules, "resource template", template, r))
	}
	if !rules.OffersURI(template) {
		return c.theOnly("resource template", template, nil)
	}
	var listing []string
	for known := range c.view.Servers(rules) {
		if hasEntry(known.Templates, template, func(t *mcpvisor.ResourceTemplate) string { return t.URITemplate }) {
			listing = append(listing, known.Server)
		}
	}
	return c.theOnly("resource template", template, listing)
}

// checkNamed refuses a URI that names its server, if a profile does not offer it, in the same words
// as one that does not exist. Without a profile the client says what it knows of the server.
func (c *connection) checkNamed(rules *offer.Rules, what, uri string, r resource.Name) error {
	if rules == nil || rules.OffersURI(r.URI) && slices.Contains(c.view.ServerNames(), r.Server) {
		return nil
	}
	_, err := c.theOnly(what, uri, nil)
	return err
}

// maxURIBytes is the longest URI that a session looks up.
const maxURIBytes = 64 << 10

// checkURI refuses a URI that is too long, and splits one that names its server.
func checkURI(uri string) (r resource.Name, named bool, err error) {
	if len(uri) > maxURIBytes {
		return r, false, message.InvalidParams(fmt.Sprintf("the URI is %d bytes long; use at most %d", len(uri), maxURIBytes))
	}
	r, named = resource.Split(uri)
	return r, named, nil
}

// hasEntry reports whether a list, which is sorted, has an entry with that key.
func hasEntry[T any](list []T, key string, keyOf func(*T) string) bool {
	_, found := slices.BinarySearchFunc(list, key, func(entry T, key string) int { return strings.Compare(keyOf(&entry), key) })
	return found
}

// codeResourceNotFound is that of versions before 2026-07-28; see notFound.
const codeResourceNotFound = -32002

// maxNamed is how many servers an error names.
const maxNamed = 8

// theOnly refuses what belongs to no server, or to more than one.
func (c *connection) theOnly(what, uri string, servers []string) (resource.Name, error) {
	if len(servers) == 1 {
		return resource.Name{Server: servers[0], URI: uri}, nil
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
	for i, server := range c.neverReady() {
		if i == maxNamed {
			text.WriteString("; and so may others")
			break
		}
		text.WriteString("; server " + server + " is not ready, and may have it")
	}
	return resource.Name{}, &jsonrpc.Error{Code: codeResourceNotFound, Message: text.String()}
}

// neverReady returns the servers of which it is not known what they offer.
func (c *connection) neverReady() []string {
	known := map[string]bool{}
	for catalog := range c.view.Servers(c.view.Rules()) {
		known[catalog.Server] = true
	}
	return slices.DeleteFunc(c.view.ServerNames(), func(server string) bool { return known[server] })
}
