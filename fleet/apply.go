package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpvisor/mcpvisor/fleet/internal/records"
	"github.com/mcpvisor/mcpvisor/fleet/placement"
	"github.com/mcpvisor/mcpvisor/fleet/store"
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

// Apply makes servers the servers of the fleet that has its state in a store. It needs no node: see
// [Node.Apply].
func Apply(ctx context.Context, s store.Store, servers []Server) (generation uint64, err error) {
	all := make([]records.Server, len(servers))
	for i, server := range servers {
		all[i] = records.Server{Name: server.Name, Spec: placement.Spec{Exclusive: server.Exclusive, Labels: server.Labels}, Definition: server.Definition}
	}
	generation, err = records.Apply(ctx, s, all)
	if err != nil {
		return 0, fmt.Errorf("apply the servers of the fleet: %w", err)
	}
	return generation, nil
}

// Apply makes servers the servers of the fleet, on all its nodes: others are removed, changed ones
// are started again, and those that are the same are left alone. It returns the generation of the
// configuration when this node has registered the servers; WaitReady waits until they are ready.
//
// Errors: a definition that this node cannot use, of which nothing is applied; a server that would
// change whether it is exclusive; another Apply at the same time; the store.
func (n *Node) Apply(ctx context.Context, servers []Server) (generation uint64, err error) {
	var unusable []error
	for _, server := range servers {
		if _, err := n.config.Resolve(server.Name, server.Definition); err != nil {
			unusable = append(unusable, err)
		}
	}
	if err := errors.Join(unusable...); err != nil {
		return 0, err
	}
	if generation, err = Apply(ctx, n.store, servers); err != nil {
		return 0, err
	}
	return generation, n.awaitRegistered(ctx, generation, servers)
}

// awaitRegistered waits until this node has registered the servers of a generation, or of a later
// one.
func (n *Node) awaitRegistered(ctx context.Context, generation uint64, servers []Server) error {
	for {
		n.mu.Lock()
		done, changed := true, n.changed
		for _, server := range servers {
			d := n.specs[server.Name]
			done = done && d != nil && d.registered && (d.record.Generation >= generation || equalDefinition(d.record.Definition, server.Definition))
		}
		n.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-n.ran:
			return errClosed
		case <-ctx.Done():
			return fmt.Errorf("generation %d is applied, and node %q has not registered its servers yet: %w", generation, n.id, context.Cause(ctx))
		}
	}
}

// equalDefinition compares two definitions, which may have other spaces.
func equalDefinition(a, b json.RawMessage) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return string(a) == string(b)
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return string(p) == string(q)
}
