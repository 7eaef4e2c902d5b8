package gateway

import "github.com/mcpvisor/mcpvisor/gateway/internal/listing"

// Prefix says when the name of a tool or prompt begins with that of its server.
type Prefix int

const (
	// PrefixAlways lists "server__tool". A name depends on nothing but its server and its tool.
	PrefixAlways Prefix = iota
	// PrefixOnConflict lists "tool", and "server__tool" if several servers have such a tool. A
	// name changes when a server comes that has the same, and stays so while the gateway runs.
	PrefixOnConflict
	// PrefixNever lists "tool". A tool that several servers have is withheld: rename one of them,
	// or hide it (mcpvisor.ServerSpec.Tools). [Status] has the conflicts.
	PrefixNever
)

// Names say how tools and prompts are listed.
type Names struct {
	// Prefix says whether a name begins with that of its server. Default: PrefixAlways.
	Prefix Prefix
	// HostPrefix is the prefix that the host puts before each name, as in "mcp__mcpvisor__". Names are
	// shortened by its length, so that prefix and name together fit the 64 characters that model
	// providers accept. At most 40 bytes count. Default: none.
	HostPrefix string
}

// WithNames sets how tools and prompts are listed. Default: for [Handler] the zero value of Names,
// for [Transport] the alias (mcpvisor.Alias), as in "mcp__server__tool".
func WithNames(n Names) Option { return func(o *options) { o.names = &n } }

// naming is what the listings know of it; nil: aliases.
func (n *Names) naming() *listing.Naming {
	if n == nil {
		return nil
	}
	return &listing.Naming{Prefix: listing.Prefix(n.Prefix), HostPrefix: n.HostPrefix}
}
