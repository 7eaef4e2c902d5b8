package gateway

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
)

// resource is a resource, or a resource template, of one server.
type resource struct{ server, uri string }

// qualifiedScheme begins the URIs that name a server: mcpvisor://SERVER/URI.
const qualifiedScheme = "mcpvisor://"

func (r resource) qualified() string { return qualifiedScheme + r.server + "/" + r.uri }

// splitQualified splits a URI that names its server.
func splitQualified(uri string) (r resource, ok bool) {
	rest, ok := strings.CutPrefix(uri, qualifiedScheme)
	if !ok {
		return resource{}, false
	}
	r.server, r.uri, ok = strings.Cut(rest, "/")
	return r, ok && r.server != "" && r.uri != ""
}

// findResource finds the server that a URI belongs to. A server that lists the URI is before
// those with a template that the URI may be an expansion of, and of these the longest
// literal beginning counts. What a server that is down offered last counts like what the
// others offer: its resources do not fall to another server. If the URI belongs to several
// servers, none gets it.
func (c *connection) findResource(uri string) (resource, error) {
	rules := c.view.rules()
	if r, named, err := checkURI(uri); err != nil || named {
		return r, cmp.Or(err, c.checkNamed(rules, "resource", uri, r))
	}
	if !rules.offersURI(uri) {
		return c.theOnly("resource", uri, nil)
	}
	var listing, expanding []string // the servers
	longest := 0                    // literal beginning of the templates of expanding
	for known := range c.view.servers(rules) {
		if hasEntry(known.Resources, uri, func(r *mcpvisor.Resource) string { return r.URI }) {
			listing = append(listing, known.Server)
		}
		literal := longestMatch(known.Templates, uri)
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
func (c *connection) findTemplate(template string) (resource, error) {
	rules := c.view.rules()
	if r, named, err := checkURI(template); err != nil || named {
		return r, cmp.Or(err, c.checkNamed(rules, "resource template", template, r))
	}
	if !rules.offersURI(template) {
		return c.theOnly("resource template", template, nil)
	}
	var listing []string
	for known := range c.view.servers(rules) {
		if hasEntry(known.Templates, template, func(t *mcpvisor.ResourceTemplate) string { return t.URITemplate }) {
			listing = append(listing, known.Server)
		}
	}
	return c.theOnly("resource template", template, listing)
}

// checkNamed refuses a URI that names its server, if a profile does not offer it, in the same words
// as one that does not exist. Without a profile the client says what it knows of the server.
func (c *connection) checkNamed(rules *rules, what, uri string, r resource) error {
	if rules == nil || rules.offersURI(r.uri) && slices.Contains(c.view.serverNames(), r.server) {
		return nil
	}
	_, err := c.theOnly(what, uri, nil)
	return err
}

// maxURIBytes is the longest URI that a session looks up.
const maxURIBytes = 64 << 10

// checkURI refuses a URI that is too long, and splits one that names its server.
func checkURI(uri string) (r resource, named bool, err error) {
	if len(uri) > maxURIBytes {
		return r, false, message.InvalidParams(fmt.Sprintf("the URI is %d bytes long; use at most %d", len(uri), maxURIBytes))
	}
	r, named = splitQualified(uri)
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
func (c *connection) theOnly(what, uri string, servers []string) (resource, error) {
	if len(servers) == 1 {
		return resource{servers[0], uri}, nil
	}
	var text strings.Builder
	if len(servers) > 1 {
		text.WriteString("several servers have the " + what + " " + message.Quote(uri) + "; use one of")
		for i, server := range servers {
			if i == maxNamed {
				fmt.Fprintf(&text, ", or that of %d more", len(servers)-i)
				break
			}
			text.WriteString(" " + message.Shorten(resource{server, uri}.qualified()))
		}
		return resource{}, message.InvalidParams(text.String())
	}
	text.WriteString("no server has the " + what + " " + message.Quote(uri))
	for i, server := range c.neverReady() {
		if i == maxNamed {
			text.WriteString("; and so may others")
			break
		}
		text.WriteString("; server " + server + " is not ready, and may have it")
	}
	return resource{}, &jsonrpc.Error{Code: codeResourceNotFound, Message: text.String()}
}

// neverReady returns the servers of which it is not known what they offer.
func (c *connection) neverReady() []string {
	known := map[string]bool{}
	for catalog := range c.view.servers(c.view.rules()) {
		known[catalog.Server] = true
	}
	return slices.DeleteFunc(c.view.serverNames(), func(server string) bool { return known[server] })
}

// maxMatchSteps bounds what the templates of one server cost at a lookup, in bytes looked
// at. Templates beyond it do not count: a server whose templates are expensive hurts itself.
const maxMatchSteps = 4 << 20

// longestMatch returns the length of the longest literal beginning of the templates that
// may expand to the URI; -1 if there are none.
func longestMatch(templates []mcpvisor.ResourceTemplate, uri string) (longest int) {
	longest = -1
	steps := maxMatchSteps
	for i := range templates {
		if literal, ok := matchTemplate(templates[i].URITemplate, uri, &steps); ok {
			longest = max(longest, literal)
		}
	}
	return longest
}

// matchTemplate reports whether the literal parts of an RFC 6570 template occur in the URI, in
// their order, and how long the first one is. The server has the last word. Each part is
// searched once, after the one before it, so the cost is linear. steps is reduced by the bytes
// that were looked at; when it is used up, nothing matches.
func matchTemplate(template, uri string, steps *int) (literal int, ok bool) {
	first, rest, more := strings.Cut(template, "{")
	if *steps -= len(first) + 1; *steps < 0 {
		return 0, false
	}
	uri, ok = strings.CutPrefix(uri, first)
	if !ok || !more {
		return len(first), ok && uri == ""
	}
	for *steps > 0 {
		expression, after, closed := strings.Cut(rest, "}")
		*steps -= len(expression) + 1
		if !closed {
			return 0, false
		}
		var part string
		part, rest, more = strings.Cut(after, "{")
		*steps -= len(part)
		if !more {
			return len(first), strings.HasSuffix(uri, part)
		}
		at := strings.Index(uri, part)
		if at < 0 {
			*steps -= len(uri)
			return 0, false
		}
		*steps -= at
		uri = uri[at+len(part):]
	}
	return 0, false
}
