package transport

import (
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/internal/display"
)

// Names and descriptions go into every listing, log line and model prompt of
// the host, so one server must not fill those. In bytes; schemas are bounded by
// Limits.Catalog only.
const (
	// maxName bounds what something is called by. One with a longer name is left
	// out: cut, it would be another's.
	maxName = 1 << 10
	// maxURI is the same for the URI of a resource or template.
	maxURI = 8 << 10
	// maxTitle and maxDescription bound what is told about it; more is cut.
	maxTitle       = 1 << 10
	maxDescription = 64 << 10
)

// bounds keeps the entries of the lists within those, and counts what it cut.
type bounds struct {
	cuts    int
	drops   int // members that were too large to decode
	decoded int // bytes: what _meta, icons and annotations take, estimated
}

func (b *bounds) tell(title, description *string) {
	for text, most := range map[*string]int{title: maxTitle, description: maxDescription} {
		if len(*text) > most {
			*text = display.Shorten(*text, most)
			b.cuts++
		}
	}
}

func (b *bounds) tool(t *mcp.Tool) error {
	if len(t.Name) > maxName {
		return tooLong("name", len(t.Name), maxName)
	}
	if len(t.Title) > maxTitle || len(t.Description) > maxDescription {
		b.tell(&t.Title, &t.Description)
	}
	return nil
}

func (b *bounds) resource(r *mcp.Resource) error {
	return b.addressed("uri", r.URI, &r.Name, &r.Title, &r.Description)
}

func (b *bounds) template(r *mcp.ResourceTemplate) error {
	return b.addressed("uriTemplate", r.URITemplate, &r.Name, &r.Title, &r.Description)
}

// addressed is for what is called by its URI: its name is told, not used.
func (b *bounds) addressed(member, uri string, name, title, description *string) error {
	if len(uri) > maxURI {
		return tooLong(member, len(uri), maxURI)
	}
	b.tell(title, description)
	if len(*name) > maxName {
		*name = display.Shorten(*name, maxName)
		b.cuts++
	}
	return nil
}

func (b *bounds) prompt(p *mcp.Prompt) error {
	if len(p.Name) > maxName {
		return tooLong("name", len(p.Name), maxName)
	}
	b.tell(&p.Title, &p.Description)
	for _, a := range p.Arguments {
		if a != nil {
			b.tell(&a.Title, &a.Description)
		}
	}
	return nil
}

func tooLong(member string, size, most int) error {
	return fmt.Errorf("its %q is %d bytes long; %d are taken", member, size, most)
}
