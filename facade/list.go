package facade

import (
	"context"
	"iter"
	"slices"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/relayhook"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Servers returns the names of the registered servers, sorted, whatever their state; none
// after Close. The slice is the caller's.
func (c *Client) Servers() []string { return slices.Clone(c.rt.Snapshot().Names()) }

// Status describes every registered server, sorted by name; none after Close.
func (c *Client) Status() []mcpvisor.ServerStatus {
	s := c.rt.Snapshot()
	out := make([]mcpvisor.ServerStatus, 0, len(s.Names()))
	for _, name := range s.Names() {
		out = append(out, c.status(s.Server(name)))
	}
	return out
}

// status is the status of a server, with what the validator warns about.
func (c *Client) status(v *actors.View) mcpvisor.ServerStatus {
	st := v.Status()
	if more := c.validator.warnings(v); st.State == supervisor.StateReady && more != nil {
		st.Catalog.Warnings = append(st.Catalog.Warnings, more...)
	}
	for _, made := range c.copies.all() {
		if own := made.rt.Snapshot().Server(v.Name); own != nil && own.Session() != nil {
			st.Copies = append(st.Copies, own.Session().PID)
		}
	}
	slices.Sort(st.Copies)
	return st
}

// ServerStatus describes one server. ok is false if no server of that name is
// registered.
func (c *Client) ServerStatus(name string) (status mcpvisor.ServerStatus, ok bool) {
	v := c.rt.Snapshot().Server(name)
	if v == nil {
		return mcpvisor.ServerStatus{}, false
	}
	return c.status(v), true
}

// Tools returns the tools of all ready servers at one moment, sorted by server and
// name; none after Close. With [WithStickyTools] it also returns those of servers that are
// down. The slice is the caller's; the definitions are shared and must not be changed.
func (c *Client) Tools() []mcpvisor.Tool {
	if c.opts.stickyTools {
		return slices.AppendSeq([]mcpvisor.Tool{}, c.AllTools())
	}
	return c.rt.Snapshot().Tools()
}

// AllTools iterates over what [Client.Tools] returns, without a copy. It yields the tools that
// are listed when the loop begins.
func (c *Client) AllTools() iter.Seq[mcpvisor.Tool] {
	if c.opts.stickyTools {
		return c.stickyTools
	}
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

// stickyTools yields the tools of all servers that are ready, or down and may return.
func (c *Client) stickyTools(yield func(mcpvisor.Tool) bool) {
	s := c.rt.Snapshot()
	for _, name := range s.Names() {
		catalog, down := s.Server(name).ListedOrLast()
		if catalog == nil {
			continue
		}
		for _, t := range catalog.Tools {
			t.Unavailable = down
			if !yield(t) {
				return
			}
		}
	}
}

// Tool finds a tool that [Client.Tools] lists by its qualified name or its alias, in
// constant time.
func (c *Client) Tool(name string) (tool mcpvisor.Tool, ok bool) {
	s := c.rt.Snapshot()
	server, own, qualified := mcpvisor.SplitName(name)
	if !qualified {
		if tool, ok = s.Alias(name); ok || !c.opts.stickyTools {
			return tool, ok
		}
		server, own, _ = s.SplitAlias(name)
	}
	v := s.Server(server)
	if v == nil {
		return mcpvisor.Tool{}, false
	}
	if tool, ok = v.Listed().Tool(own); ok || !c.opts.stickyTools {
		return tool, ok
	}
	catalog, down := v.ListedOrLast()
	tool, ok = catalog.Tool(own)
	tool.Unavailable = ok && down
	return tool, ok
}

// Resources returns the resources of all ready servers, sorted by server and URI. The
// slice is the caller's; the definitions are shared and must not be changed.
func (c *Client) Resources() []mcpvisor.Resource { return c.rt.Snapshot().Resources() }

// ResourceTemplates returns the resource templates of all ready servers, sorted by
// server and template, as [Client.Resources] does.
func (c *Client) ResourceTemplates() []mcpvisor.ResourceTemplate { return c.rt.Snapshot().Templates() }

// Prompts returns the prompts of all ready servers, sorted by server and name, as
// [Client.Resources] does.
func (c *Client) Prompts() []mcpvisor.Prompt { return c.rt.Snapshot().Prompts() }

// Catalogs implements relay.Methods.
func (c relayed) Catalogs() iter.Seq[relayhook.Catalog] {
	return func(yield func(relayhook.Catalog) bool) {
		s := c.rt.Snapshot()
		for _, name := range s.Names() {
			v := s.Server(name)
			known, down := v.Known()
			if known == nil {
				continue
			}
			if !yield(relayhook.Catalog{Server: name, Unavailable: down, State: v.State, Version: known.Version, Instructions: known.Instructions, Tools: known.Tools,
				Resources: known.Resources, Templates: known.Templates, Prompts: known.Prompts}) {
				return
			}
		}
	}
}

// AwaitLists implements relay.Methods.
func (c relayed) AwaitLists(ctx context.Context, server string) error {
	return c.withServerOp(c.rt.AwaitLists(ctx, server), server, "wait for the lists of "+server)
}
