// Package resource names resources, and finds the templates that a URI may match. It keeps no state;
// MaxSteps bounds a lookup.
package resource

import (
	"net/url"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
)

// Name is a resource, or a resource template, of one server.
type Name struct{ Server, URI string }

const (
	// qualifiedScheme is the beginning of a URI that names its server: mcpvisor://SERVER/URI.
	qualifiedScheme = "mcpvisor://"
	// uiScheme is that of user interfaces (MCP Apps, the extension io.modelcontextprotocol/ui). Hosts accept no other
	// one for them, so it stays in front: ui://SERVER/REST is ui://REST of that server.
	uiScheme = "ui://"
)

// IsUI reports whether a URI is that of a user interface.
func IsUI(uri string) bool { return strings.HasPrefix(uri, uiScheme) }

// Authority returns what a server may be named by in the URI of a user interface.
func Authority(uri string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(uri, uiScheme), "/")
	return name
}

// Qualified returns the URI that also names the server.
func (r Name) Qualified() string {
	if IsUI(r.URI) {
		return uiScheme + r.Server + "/" + r.URI[len(uiScheme):]
	}
	return qualifiedScheme + r.Server + "/" + r.URI
}

// Split splits a URI that names its server. A URI of a user interface does so if it begins with one of servers.
func Split(uri string, servers []string) (r Name, ok bool) {
	if IsUI(uri) {
		name := Authority(uri)
		rest, slash := strings.CutPrefix(uri[len(uiScheme)+len(name):], "/")
		r = Name{serverIn(servers, name), uiScheme + rest}
		return r, slash && r.Server != ""
	}
	rest, ok := strings.CutPrefix(uri, qualifiedScheme)
	if !ok {
		return Name{}, false
	}
	r.Server, r.URI, ok = strings.Cut(rest, "/")
	return r, ok && r.Server != "" && r.URI != ""
}

// serverIn returns the server that the authority of a URI names; "" if it names none. Hosts may have escaped it, or
// changed its case.
func serverIn(servers []string, authority string) (server string) {
	if name, err := url.PathUnescape(authority); err == nil {
		authority = name
	}
	for _, name := range servers {
		switch {
		case name == authority:
			return name
		case strings.EqualFold(name, authority) && server != "":
			server = "/" // several
		case strings.EqualFold(name, authority):
			server = name
		}
	}
	return strings.Trim(server, "/")
}

// First returns the server that a bare URI belongs to, of those that have it: the only one, or the first one in
// order that is among them; "" without one. Nothing that a server lists gives it precedence.
func First(having, order []string) string {
	if len(having) == 1 {
		return having[0]
	}
	for _, server := range order {
		if slices.Contains(having, server) {
			return server
		}
	}
	return ""
}

// Before returns those of the servers with unknown lists that may own what server, the first one that has it, has:
// those that come before it in order, and without an order all, unless it was listed as that of server before.
func Before(unknown []string, server string, order []string, listed bool) (before []string) {
	at := slices.Index(order, server)
	for _, other := range unknown {
		i := slices.Index(order, other)
		if i >= 0 && (at < 0 || i < at) || i < 0 && at < 0 && !listed {
			before = append(before, other)
		}
	}
	return before
}

// MaxSteps bounds what the templates of one server cost in a lookup, in bytes that are compared. Later
// templates do not match, so expensive templates harm only their own server. MaxListSteps bounds what they
// cost when all resources are listed.
const (
	MaxSteps     = 4 << 20
	MaxListSteps = 16 << 20
)

// Matches reports whether one of the templates matches the URI. steps is reduced by the number of bytes
// compared; at 0 nothing matches.
func Matches(templates []mcpvisor.ResourceTemplate, uri string, steps *int) bool {
	for i := range templates {
		if matchTemplate(templates[i].URITemplate, uri, steps) {
			return true
		}
	}
	return false
}

// matchTemplate reports whether the literal parts of an RFC 6570 template occur in the URI, in their
// order. That is necessary and not sufficient: the server decides whether the resource exists. The search
// for each part starts after the part before it, so the cost is linear.
func matchTemplate(template, uri string, steps *int) bool {
	first, rest, more := strings.Cut(template, "{")
	if *steps -= len(first) + 1; *steps < 0 {
		return false
	}
	uri, ok := strings.CutPrefix(uri, first)
	if !ok || !more {
		return ok && uri == ""
	}
	for *steps > 0 {
		expression, after, closed := strings.Cut(rest, "}")
		*steps -= len(expression) + 1
		if !closed {
			return false
		}
		var part string
		part, rest, more = strings.Cut(after, "{")
		*steps -= len(part)
		if !more {
			return strings.HasSuffix(uri, part)
		}
		at := strings.Index(uri, part)
		if at < 0 {
			*steps -= len(uri)
			return false
		}
		*steps -= at
		uri = uri[at+len(part):]
	}
	return false
}
