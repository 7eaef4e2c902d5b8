package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor/fleet/internal/records"
	"github.com/mcpvisor/mcpvisor/fleet/placement"
	"github.com/mcpvisor/mcpvisor/fleet/store"
	"github.com/mcpvisor/mcpvisor/internal/canonical"
	"github.com/mcpvisor/mcpvisor/internal/group"
)

// Server is one server of a fleet.
type Server struct {
	Name string
	// Exclusive: at most one process of it exists among all nodes. It cannot change for a name.
	Exclusive bool
	// Labels are those that a node must have to run it.
	Labels map[string]string
	// Definition says how it is run: an entry of a configuration file in JSON, unless the nodes have
	// a Config.Resolve of their own. It must hold no secrets, because everybody who can read the
	// store can read it; name variables and files, which each node has for itself.
	Definition json.RawMessage
}

// ApplyOption is an option of [Apply].
type ApplyOption func(*applyOptions)

type applyOptions struct{ gateway json.RawMessage }

// WithGateway also sets what the gateways of all nodes offer; nil: the default. The programs of the nodes
// read it ([Config.Configured]): for `mcpvisor fleet run` it is "gateway" of a configuration file. It must
// hold no secrets. Without this option it stays as it is.
func WithGateway(definition json.RawMessage) ApplyOption {
	return func(o *applyOptions) {
		if o.gateway = definition; definition == nil {
			o.gateway = records.NoGateway
		}
	}
}

// Apply makes servers the servers of the fleet that has its state in a store. It needs no node: see
// [Node.Apply].
func Apply(ctx context.Context, s store.Store, servers []Server, options ...ApplyOption) (generation uint64, err error) {
	var o applyOptions
	for _, option := range options {
		option(&o)
	}
	all := make([]records.ServerRecord, len(servers))
	for i, server := range servers {
		all[i] = records.ServerRecord{Name: server.Name, Spec: placement.Spec{Exclusive: server.Exclusive, Labels: server.Labels}, Definition: server.Definition}
	}
	generation, err = records.Apply(ctx, s, all, o.gateway)
	if err != nil {
		return 0, fmt.Errorf("apply the servers of the fleet: %w", err)
	}
	return generation, nil
}

// Apply makes servers the servers of the fleet, on all its nodes: others are removed, changed ones
// are started again, and those that are the same are left alone. It returns the generation of the
// configuration when this node has registered the servers; WaitReady waits until they are ready.
//
// Errors: a definition that this node cannot use, of which nothing is applied: mcpvisor.ErrInvalid if it asks for what a fleet
// does not do, or servers wait for each other in a circle (After); a server that would
// change whether it is exclusive; another Apply at the same time; the store.
func (n *Node) Apply(ctx context.Context, servers []Server) (generation uint64, err error) {
	var unusable []error
	after := map[string][]string{}
	for _, server := range servers {
		spec, err := n.specOf(server.Name, server.Definition)
		unusable, after[server.Name] = append(unusable, err), spec.After
	}
	if err := errors.Join(unusable...); err != nil {
		return 0, err
	}
	order := group.Config{Root: true, Apart: true, Parallel: true}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		order.Members = append(order.Members, group.Member{Name: name, After: after[name]})
	}
	if err := group.Validate([]group.Config{order}); err != nil {
		return 0, invalid("", err)
	}
	if generation, err = Apply(ctx, n.store, servers); err != nil {
		return 0, err
	}
	return generation, n.awaitRegistered(ctx, generation, servers)
}

// Move lets a node take a server from the one that runs it: calls in flight there end first, for up
// to 30 s. It needs no [Node], and returns when the node has the server. A move is no pin: later the
// server goes where placement wants it. Labels are pins.
//
// Errors: the fleet has no such server or node, the node drains or lacks the labels of the server,
// or it did not take the server within 30 s or before ctx ended.
func Move(ctx context.Context, s store.Store, server, node string) error {
	lease, err := records.RequestMove(ctx, s, server, node)
	if err != nil {
		return fmt.Errorf("move server %q to node %q: %w", server, node, err)
	}
	defer func() { // it is no longer tried
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTimeout)
		defer cancel()
		_ = s.Revoke(ending, lease)
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, records.MoveTTL, errors.New("the node has not taken it in time"))
	defer cancel()
	for tick := time.NewTicker(movePoll); ; {
		runs, err := records.RunnerOf(ctx, s, server)
		if err == nil && runs == node {
			tick.Stop()
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return fmt.Errorf("move server %q to node %q: %w", server, node, context.Cause(ctx))
		}
	}
}

// movePoll is how often Move looks.
const movePoll = 100 * time.Millisecond

// Move is the function [Move] for the fleet of this node.
func (n *Node) Move(ctx context.Context, server, node string) error {
	return Move(ctx, n.store, server, node)
}

// awaitRegistered waits until this node has registered the servers of a generation, or of a later
// one.
func (n *Node) awaitRegistered(ctx context.Context, generation uint64, servers []Server) error {
	tick := time.NewTicker(registeredPoll) // a later generation may remove a server without a trace
	defer tick.Stop()
	for {
		known, err := n.runner.Snapshot(ctx)
		later := err == nil && known.Generation.Applied > generation
		n.mu.Lock()
		done, changed := true, n.changed
		for _, server := range servers {
			d := n.specs[server.Name]
			done = done && (d == nil && later || d != nil && d.registered && (d.record.Generation >= generation || canonical.Equal(d.record.Definition, server.Definition)))
		}
		n.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-n.ran:
			return errClosed
		case <-ctx.Done():
			return fmt.Errorf("generation %d is applied, and node %q has not registered its servers yet: %w", generation, n.id, context.Cause(ctx))
		}
	}
}

// registeredPoll is how often awaitRegistered looks.
const registeredPoll = 100 * time.Millisecond
