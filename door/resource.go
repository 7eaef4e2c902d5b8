package door

import (
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
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

// findResource finds the server of a resource: the one that lists it, or else the one with a
// template that it may be an expansion of. If it is not found, what servers that are down
// have listed counts, too.
func (c *connection) findResource(uri string) (resource, error) {
	if r, ok := splitQualified(uri); ok {
		return r, nil
	}
	found := resourcesOf(uri, c.client.Resources(), c.client.ResourceTemplates())
	if len(found) == 0 {
		all, templates := c.memory.resources()
		found = resourcesOf(uri, all, templates)
	}
	return c.theOnly("resource", uri, found)
}

// resourcesOf returns the resources that a URI may stand for.
func resourcesOf(uri string, all []mcpvisor.Resource, templates []mcpvisor.ResourceTemplate) (found []resource) {
	for _, r := range all {
		if r.URI == uri {
			found = append(found, resource{r.Server, uri})
		}
	}
	if len(found) > 0 {
		return found
	}
	for _, t := range templates {
		if mayExpandTo(t.URITemplate, uri) && (len(found) == 0 || found[len(found)-1].server != t.Server) {
			found = append(found, resource{t.Server, uri})
		}
	}
	return found
}

// findTemplate finds the server that lists a resource template, in the same way.
func (c *connection) findTemplate(template string) (resource, error) {
	if r, ok := splitQualified(template); ok {
		return r, nil
	}
	found := templatesOf(template, c.client.ResourceTemplates())
	if len(found) == 0 {
		_, templates := c.memory.resources()
		found = templatesOf(template, templates)
	}
	return c.theOnly("resource template", template, found)
}

func templatesOf(template string, all []mcpvisor.ResourceTemplate) (found []resource) {
	for _, t := range all {
		if t.URITemplate == template {
			found = append(found, resource{t.Server, template})
		}
	}
	return found
}

// codeResourceNotFound is that of versions before 2026-07-28; later ones use that of invalid
// params, which has no meaning of its own.
const codeResourceNotFound = -32002

// theOnly refuses what no server has, or more than one.
func (c *connection) theOnly(what, uri string, found []resource) (resource, error) {
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		text := "no server has the " + what + " " + quote(uri)
		for _, s := range c.client.Status() {
			if s.Session == nil {
				text += "; server " + s.Name + " is not ready, and may have it"
			}
		}
		return resource{}, &jsonrpc.Error{Code: codeResourceNotFound, Message: text}
	}
	text := "several servers have the " + what + " " + quote(uri) + "; use one of"
	for _, r := range found {
		text += " " + r.qualified()
	}
	return resource{}, invalidParams(text)
}

// mayExpandTo reports whether the literal parts of an RFC 6570 template occur in the URI, in
// their order. The server has the last word.
func mayExpandTo(template, uri string) bool {
	literal, rest, more := strings.Cut(template, "{")
	uri, ok := strings.CutPrefix(uri, literal)
	if !ok || !more {
		return ok && uri == ""
	}
	for {
		_, after, closed := strings.Cut(rest, "}")
		if !closed {
			return false
		}
		if literal, rest, more = strings.Cut(after, "{"); !more {
			return strings.HasSuffix(uri, literal)
		}
		at := strings.Index(uri, literal)
		if at < 0 {
			return false
		}
		uri = uri[at+len(literal):]
	}
}
