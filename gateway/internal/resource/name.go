// Package resource names resources, and finds the templates that a URI may match. It keeps no state;
// maxMatchSteps bounds a lookup.
package resource

import (
	"strings"

	"github.com/mcpvisor/mcpvisor"
)

// Name is a resource, or a resource template, of one server.
type Name struct{ Server, URI string }

// qualifiedScheme is the beginning of a URI that names its server: mcpvisor://SERVER/URI.
const qualifiedScheme = "mcpvisor://"

// Qualified returns the URI that also names the server.
func (r Name) Qualified() string { return qualifiedScheme + r.Server + "/" + r.URI }

// Split splits a URI that names its server.
func Split(uri string) (r Name, ok bool) {
	rest, ok := strings.CutPrefix(uri, qualifiedScheme)
	if !ok {
		return Name{}, false
	}
	r.Server, r.URI, ok = strings.Cut(rest, "/")
	return r, ok && r.Server != "" && r.URI != ""
}

// maxMatchSteps bounds what the templates of one server cost in a lookup, in bytes that are compared.
// Later templates do not match, so expensive templates harm only their own server.
const maxMatchSteps = 4 << 20

// LongestMatch returns the length of the longest literal prefix of the templates that match the URI; -1
// if none matches.
func LongestMatch(templates []mcpvisor.ResourceTemplate, uri string) (longest int) {
	longest = -1
	steps := maxMatchSteps
	for i := range templates {
		if literal, ok := matchTemplate(templates[i].URITemplate, uri, &steps); ok {
			longest = max(longest, literal)
		}
	}
	return longest
}

// matchTemplate reports whether the literal parts of an RFC 6570 template occur in the URI, in their
// order, and how long the first one is. That is necessary and not sufficient: the server decides whether
// the resource exists. The search for each part starts after the part before it, so the cost is linear.
// steps is reduced by the number of bytes compared; at 0 nothing matches.
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
