package facade

import (
	"iter"
	"slices"

	"github.com/mcpvisor/mcpvisor"
)

// Servers lists the registered servers in order, whatever their state.
func (c *Client) Servers() []string { return slices.Clone(c.rt.Snapshot().Names()) }

// Status describes every registered server, in order.
func (c *Client) Status() []mcpvisor.ServerStatus {
	s := c.rt.Snapshot()
	out := make([]mcpvisor.ServerStatus, 0, len(s.Names()))
	for _, name := range s.Names() {
		out = append(out, s.Server(name).Status())
	}
	return out
}

// ServerStatus describes one server.
func (c *Client) ServerStatus(name string) (mcpvisor.ServerStatus, bool) {
	v := c.rt.Snapshot().Server(name)
	if v == nil {
		return mcpvisor.ServerStatus{}, false
	}
	return v.Status(), true
}

// Tools lists the tools of all ready servers, by server and name, as they are
// at one moment. The slice is the caller's; definitions are shared.
func (c *Client) Tools() []mcpvisor.Tool { return c.rt.Snapshot().Tools() }

// AllTools goes through what Tools lists, without a copy: of tens of thousands
// of tools the first costs as little as of ten. What it yields is of one
// moment, the one at which the loop begins.
func (c *Client) AllTools() iter.Seq[mcpvisor.Tool] {
	return func(yield func(mcpvisor.Tool) bool) {
		for catalog := range c.rt.Snapshot().Catalogs() {
			for _, t := range catalog.Tools {
				if !yield(t) {
					return
				}
			}
		}
	}
}

// Tool finds a listed tool by its qualified name or its alias, in constant
// time.
func (c *Client) Tool(name string) (mcpvisor.Tool, bool) {
	s := c.rt.Snapshot()
	if server, own, ok := mcpvisor.SplitName(name); ok {
		if v := s.Server(server); v != nil {
			return v.Listed().Tool(own)
		}
		return mcpvisor.Tool{}, false
	}
	return s.Alias(name)
}

// Resources lists the resources of all ready servers, by server and URI.
func (c *Client) Resources() []mcpvisor.Resource { return c.rt.Snapshot().Resources() }

// ResourceTemplates lists the resource templates of all ready servers.
func (c *Client) ResourceTemplates() []mcpvisor.ResourceTemplate { return c.rt.Snapshot().Templates() }

// Prompts lists the prompts of all ready servers, by server and name.
func (c *Client) Prompts() []mcpvisor.Prompt { return c.rt.Snapshot().Prompts() }
