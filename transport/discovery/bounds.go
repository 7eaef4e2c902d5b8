package discovery

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/jsonbound"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// Names and descriptions go into the listings, log lines and model prompts of the host, so
// each of them is bounded, in bytes. Only Limits.MaxCatalogBytes bounds schemas.
const (
	// maxName bounds the name of a tool or prompt. An entry with a longer name is left out,
	// because a name that is cut identifies another entry or none.
	maxName = 1 << 10
	// maxURI bounds the URI of a resource or a template. An entry with a longer URI is left
	// out.
	maxURI = 8 << 10
	// maxTitle and maxDescription bound text about an entry. Longer text is cut.
	maxTitle       = 1 << 10
	maxDescription = 64 << 10
)

// A message of bounded length can hold millions of tiny values, which take a hundred
// times as much once decoded. So entries are measured before they are decoded.
var (
	// entryLimits are for one entry, without its schemas.
	entryLimits = jsonbound.Limits{Elements: 10_000, Depth: 500, Bytes: 8 << 20}
	// memberLimits are for one open member of an entry.
	memberLimits = jsonbound.OpenMember
)

// bounds keeps the entries of one list within these limits, and counts the texts that it cut
// and the members that it dropped.
type bounds struct {
	cut      int  // texts that were too long
	dropped  int  // open members that were too large to decode
	repaired int  // tools whose schemas were repaired
	decoded  *int // estimated bytes of decoded open members, of all lists
}

// decode decodes an entry, without open members that are too large.
func (b *bounds) decode(item json.RawMessage, into any) error {
	item, err := b.slim(item)
	if err != nil {
		return err
	}
	return json.Unmarshal(item, into)
}

// slim returns an entry without open members that are too large: they are left out, not
// the entry.
func (b *bounds) slim(item json.RawMessage) (json.RawMessage, error) {
	dropped := b.dropped
	err := jsonscan.EachMember(item, func(key string, value []byte) error {
		if isOpenMember(key) {
			b.admit(value)
		}
		return nil
	})
	if err == nil && b.dropped > dropped {
		item = withoutLargeMembers(item)
	}
	if err := exceeds(item, entryLimits); err != nil {
		return nil, fmt.Errorf("it holds %w", err)
	}
	return item, nil
}

// admit reports whether an open member may be decoded, and counts what that takes.
func (b *bounds) admit(value []byte) bool {
	size, err := jsonbound.Check(context.Background(), value, memberLimits)
	if err != nil {
		b.dropped++
		return false
	}
	*b.decoded += size.Bytes
	return true
}

// isOpenMember reports whether the protocol leaves the content of a member open.
// encoding/json ignores the case of names, so this does, too.
func isOpenMember(key string) bool {
	return strings.EqualFold(key, "_meta") || strings.EqualFold(key, "icons") || strings.EqualFold(key, "annotations")
}

// withoutLargeMembers returns an entry without the open members that exceed memberLimits.
func withoutLargeMembers(item []byte) []byte {
	return jsonscan.Edit(item, func(key string, value []byte) []byte {
		if isOpenMember(key) && exceeds(value, memberLimits) != nil {
			return nil
		}
		return value
	})
}

// exceeds returns why a value must not be decoded; nil if it may be.
func exceeds(value []byte, limits jsonbound.Limits) error {
	_, err := jsonbound.Check(context.Background(), value, limits)
	return err
}

// text cuts a title and a description that are too long.
func (b *bounds) text(title, description *string) {
	b.shorten(title, maxTitle)
	b.shorten(description, maxDescription)
}

// shorten cuts one text that is longer than limit, and counts it.
func (b *bounds) shorten(text *string, limit int) {
	if len(*text) > limit {
		*text = display.Shorten(*text, limit)
		b.cut++
	}
}

// tool checks the name of a tool and cuts its texts. The methods for the other kinds of
// entries do the same. The error says why the entry is left out.
func (b *bounds) tool(t *mcp.Tool) error {
	if len(t.Name) > maxName {
		return tooLong("name", len(t.Name), maxName)
	}
	b.text(&t.Title, &t.Description)
	return nil
}

func (b *bounds) resource(r *mcp.Resource) error {
	return b.identifiedByURI("uri", r.URI, &r.Name, &r.Title, &r.Description)
}

func (b *bounds) template(r *mcp.ResourceTemplate) error {
	return b.identifiedByURI("uriTemplate", r.URITemplate, &r.Name, &r.Title, &r.Description)
}

// identifiedByURI is for entries whose URI identifies them. Their name is only shown, so
// it is cut.
func (b *bounds) identifiedByURI(member, uri string, name, title, description *string) error {
	if len(uri) > maxURI {
		return tooLong(member, len(uri), maxURI)
	}
	b.text(title, description)
	b.shorten(name, maxName)
	return nil
}

func (b *bounds) prompt(p *mcp.Prompt) error {
	if len(p.Name) > maxName {
		return tooLong("name", len(p.Name), maxName)
	}
	b.text(&p.Title, &p.Description)
	for _, a := range p.Arguments {
		if a != nil {
			b.text(&a.Title, &a.Description)
		}
	}
	return nil
}

// tooLong returns the error of a member that identifies its entry and is too long.
func tooLong(member string, size, limit int) error {
	return fmt.Errorf("its %q is %d bytes long; at most %d are accepted", member, size, limit)
}
