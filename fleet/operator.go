package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor/fleet/internal/records"
	"github.com/mcpvisor/mcpvisor/fleet/placement"
	"github.com/mcpvisor/mcpvisor/fleet/store"
)

// Read returns the state of the fleet that a store has, and the servers as they were applied. It
// needs no node: the fields of Status about one node are empty. Records that cannot be read are left
// out, and err says which: the rest is returned, too.
func Read(ctx context.Context, s store.Store) (status Status, servers []Server, err error) {
	snapshot, err := s.Read(ctx, "")
	if err != nil {
		return Status{}, nil, fmt.Errorf("read the fleet: %w", err)
	}
	var unreadable []error
	note := func(key string, err error) bool {
		if err != nil {
			unreadable = append(unreadable, fmt.Errorf("record %s: %w", key, err))
		}
		return err == nil
	}
	var nodes []placement.Node
	lives := map[string]int{} // in status.Nodes
	specs, places := map[string]records.Spec{}, map[string]placement.Place{}
	var names []string // sorted, as the snapshot is
	for _, pair := range snapshot.Pairs {
		if id, life, ok := records.SplitNodeKey(pair.Key); ok {
			if node, _, err := records.Decode[placement.Node](pair.Value); note(pair.Key, err) {
				node.ID, node.Life = id, life
				nodes = append(nodes, node)
			}
		} else if name, ok := strings.CutPrefix(pair.Key, records.SpecPrefix); ok {
			if spec, _, err := records.Decode[records.Spec](pair.Value); note(pair.Key, err) {
				names = append(names, name)
				specs[name] = spec
				servers = append(servers, Server{Name: name, Exclusive: spec.Exclusive, Labels: spec.Labels, Definition: spec.Definition})
			}
		} else if name, ok := strings.CutPrefix(pair.Key, records.PlacePrefix); ok {
			if place, _, err := records.Decode[placement.Place](pair.Value); note(pair.Key, err) {
				places[name] = place
			}
		} else if pair.Key == records.GatewayKey {
			if gateway, _, err := records.Decode[records.Gateway](pair.Value); note(pair.Key, err) {
				status.Gateway = gateway.Definition
			}
		} else if pair.Key == records.GenerationKey {
			if generation, _, err := records.Decode[records.Generation](pair.Value); note(pair.Key, err) {
				status.Generation, status.Applying = generation.Applied, generation.Next != 0
			}
		}
	}
	for _, node := range nodes {
		lives[node.Life] = len(status.Nodes)
		status.Nodes = append(status.Nodes, NodeStatus{ID: node.ID, Life: node.Life, Address: node.Address, Labels: node.Labels, Weight: node.Weight, Capacity: node.Capacity, Draining: node.Draining})
	}
	for _, name := range names {
		spec, place := specs[name], places[name]
		server := ServerStatus{Name: name, Exclusive: spec.Exclusive, Labels: spec.Labels, Epoch: place.Epoch}
		if i, alive := lives[place.Life]; alive && !place.Released {
			server.Node = place.Node
			status.Nodes[i].Servers++
		} else {
			server.Unplaced = whyUnplaced(spec.Spec, nodes)
		}
		status.Servers = append(status.Servers, server)
	}
	return status, servers, errors.Join(unreadable...)
}

// ErrUnknownNode: the fleet has no node of that name with a lease.
var ErrUnknownNode = records.ErrUnknownNode

// ErrUnknownServer: the fleet has no server of that name.
var ErrUnknownServer = records.ErrUnknownServer

// drainPrefix begins the keys drain/<id>/<life>, by which an operator who reaches the store, and no
// node, makes a node drain. They go with the lease of that life.
const drainPrefix = "drain/"

// RequestDrain makes a node hand over its servers, and take none until its process ends, as
// [Node.Drain] does. It needs no node, and returns when the store has the request.
func RequestDrain(ctx context.Context, s store.Store, id string) error {
	failed := func(err error) error { return fmt.Errorf("drain node %q: %w", id, err) }
	snapshot, err := s.Read(ctx, records.NodeKey(id, ""))
	if err != nil {
		return failed(err)
	}
	if len(snapshot.Pairs) == 0 {
		return failed(ErrUnknownNode)
	}
	last := slices.MaxFunc(snapshot.Pairs, func(a, b store.Pair) int { return cmp.Compare(a.Revision, b.Revision) })
	_, life, _ := records.SplitNodeKey(last.Key)
	result, err := s.Commit(ctx, store.Txn{If: []store.Condition{store.Present(last.Key)},
		Then: []store.Change{store.PutLeased(drainPrefix+id+"/"+life, fmt.Appendf(nil, `{"v":%d}`, records.Version), last.Lease)}})
	switch {
	case errors.Is(err, store.ErrLeaseGone), err == nil && !result.OK:
		return failed(ErrUnknownNode)
	case err != nil:
		return failed(err)
	}
	return nil
}
