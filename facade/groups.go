package facade

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/dial"
)

// SetGroups makes the groups of the client those of groups; none end all groups. Servers continue, also those that are in
// another group than before. It may be called before the servers are registered, so that they start in order.
//
// Errors: ErrInvalid (a group cannot work, a name is that of two groups or of a group and a server, a member has two
// places, servers and groups wait for each other in a circle, which the error names, or a fleet places a member; nothing was changed),
// ErrCanceled, ErrClosed.
func (c *Client) SetGroups(ctx context.Context, groups []mcpvisor.Group) error {
	var errs []error
	for _, g := range groups {
		errs = append(errs, g.Validate())
		for _, m := range g.Members {
			errs = append(errs, c.refuseMember(m, g.Name))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return &mcpvisor.Error{Op: "set groups", Kind: mcpvisor.ErrInvalid, Outcome: mcpvisor.OutcomeNotSent, Cause: err}
	}
	return withOp(c.rt.SetGroups(ctx, groups), "set groups")
}

// refuseMember is the error of a member of a group that relay.WithDialer refuses.
func (c *Client) refuseMember(name, of string) error {
	if err := c.opts.dialer.Refuse(name, dial.OrderGroup); err != nil {
		return fmt.Errorf("group %q: member %q: %w", of, name, err)
	}
	return nil
}

// Groups describes the groups of the client, in the order of SetGroups; none after Close. The slice is the caller's.
func (c *Client) Groups() []mcpvisor.GroupStatus {
	groups := slices.Clone(c.rt.Snapshot().Groups())
	for i := range groups {
		groups[i].Members, groups[i].After, groups[i].Cause = slices.Clone(groups[i].Members), slices.Clone(groups[i].After), groups[i].Cause.Clone()
	}
	return groups
}

// Stop ends a server and keeps its registration, in the state "stopped", until [Client.Start]: no policy, no group, no call and
// no other spec ([Client.Apply]) starts it. It is not listed. Its copies (package relay) end after it. It returns when everything that the server held is released. A server that comes after it waits when it
// starts the next time. Stop of a group stops its servers, each before those that it comes after.
//
// Calls in flight fail with ErrEnded and OutcomeUnknown, unless they end before, [WithDrain]; later calls fail with ErrUnavailable.
//
// Errors: ErrUnknownServer, ErrInvalid (a fleet keeps the server running), ErrEvicted (it was fenced), ErrCanceled (ctx ended; the stop
// continues), ErrLeftBehind, ErrClosed.
func (c *Client) Stop(ctx context.Context, name string, opts ...EndOption) error {
	members, isGroup := c.members(name)
	if !isGroup {
		if err := c.opts.dialer.Refuse(name, dial.OrderStop); err != nil {
			return &mcpvisor.Error{Server: name, Op: "stop " + name, Kind: mcpvisor.ErrInvalid, Outcome: mcpvisor.OutcomeNotSent, Cause: err}
		}
		err := c.rt.Stop(ctx, name, slices.Contains(opts, WithDrain()))
		if err == nil { // from now on no further copy is made
			err = c.endCopies(func(made *Client) error { return made.Stop(ctx, name, opts...) })
		}
		return c.withServerOp(err, name, "stop "+name)
	}
	var errs []error
	for _, m := range slices.Backward(members) {
		if err := c.Stop(ctx, m, opts...); !errors.Is(err, mcpvisor.ErrUnknownServer) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Start starts a server that does not run, with all attempts of its policy: one that is stopped, asleep, resting or
// evicted, or waits for a retry. It returns when the start is under way, as [Client.Restart]. A server that comes after others waits
// for them, and one whose group has failed for the group. Start of a group starts afresh what has failed in it, and what is stopped.
//
// Errors: ErrUnknownServer, ErrEvicted (it was fenced; register it again), ErrCanceled, ErrClosed.
func (c *Client) Start(ctx context.Context, name string) error {
	members, isGroup := c.members(name)
	if !isGroup {
		return c.withServerOp(c.rt.Start(ctx, name), name, "start "+name)
	}
	c.rt.RenewGroup(name)
	var errs []error
	for _, m := range members {
		_, nested := c.members(m)
		if v := c.rt.Snapshot().Server(m); nested || v != nil && (v.State == supervisor.StateStopped || v.State == supervisor.StateEvicted && endedError(v) == nil) {
			errs = append(errs, c.Start(ctx, m))
		}
	}
	return errors.Join(errs...)
}

// members returns the members of a group.
func (c *Client) members(name string) (members []string, isGroup bool) {
	for _, g := range c.rt.Snapshot().Groups() {
		if g.Name == name {
			return g.Members, true
		}
	}
	return nil, false
}

// Monitor returns a context that ends with the incarnation of a server that is ready now, or with ctx. context.Cause says
// why: it is a *[supervisor.Cause] if the incarnation has ended. Another server, or this one after a restart, does not
// end it.
//
// Errors: ErrUnknownServer, ErrUnavailable, ErrEvicted, ErrAuthRequired, ErrClosed (the server is not ready).
func (c *Client) Monitor(ctx context.Context, server string) (context.Context, error) {
	s := c.rt.Snapshot()
	v := s.Server(server)
	if v == nil {
		return nil, withOp(unknownServer(s, server), "monitor "+server)
	}
	monitored, err := v.Monitor(ctx)
	return monitored, withOp(err, "monitor "+server)
}
