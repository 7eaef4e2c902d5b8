package records

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcpvisor/mcpvisor/fleet/placement"
	"github.com/mcpvisor/mcpvisor/fleet/store"
)

// MoveTTL bounds how long a move is tried. It ends with a lease that is not renewed.
const MoveTTL = 30 * time.Second

// RequestMove asks that a node takes a name: the owner releases it, and the node is the first to
// claim it. The claim of any node removes the record, so that a node that does not come in time is
// not waited for again. The caller sees the end in the place of the name, and may give the lease
// back before: then the move is no longer tried.
//
// A move is no pin. Later, the name goes where placement wants it; labels are pins.
func RequestMove(ctx context.Context, s store.Store, name, nodeID string) (lease store.Lease, err error) {
	if err := checkMove(ctx, s, name, nodeID); err != nil {
		return 0, err
	}
	if lease, err = s.Grant(ctx, MoveTTL); err != nil {
		return 0, err
	}
	result, err := s.Commit(ctx, store.Txn{
		If:   []store.Condition{store.Present(SpecKey(name))},
		Then: []store.Change{store.PutLeased(MoveKey(name), Encode(Move{Node: nodeID}, nil), lease)},
	})
	if err == nil && !result.OK {
		err = errors.New("the server was removed")
	}
	if err != nil {
		return 0, errors.Join(err, s.Revoke(ctx, lease))
	}
	return lease, nil
}

// ErrUnknownServer: the fleet has no server of that name.
var ErrUnknownServer = errors.New("the fleet has no such server")

// ErrUnknownNode: the fleet has no node of that name with a lease.
var ErrUnknownNode = errors.New("the fleet has no such node; it may have ended, or have no lease")

// checkMove finds out whether the node may take the name. Nodes ignore a move to one that may not.
func checkMove(ctx context.Context, s store.Store, name, nodeID string) error {
	pair, known, err := get(ctx, s, SpecKey(name))
	if err != nil {
		return err
	}
	var spec Spec
	if known {
		if spec, _, err = Decode[Spec](pair.Value); err != nil {
			return err
		}
	}
	lives, err := s.Read(ctx, NodesPrefix+nodeID+"/")
	if err != nil {
		return err
	}
	var (
		newest   placement.Node
		revision int64
	)
	for _, pair := range lives.Pairs {
		if pair.Revision > revision {
			if newest, _, err = Decode[placement.Node](pair.Value); err != nil {
				return fmt.Errorf("node %q: %w", nodeID, err)
			}
			revision = pair.Revision
		}
	}
	switch {
	case !known:
		return ErrUnknownServer
	case revision == 0:
		return ErrUnknownNode
	case newest.Draining:
		return errors.New("the node hands over all its servers (drain)")
	case !spec.Allows(newest):
		return fmt.Errorf("the node does not have the labels %v that the server asks for", spec.Labels)
	}
	return nil
}

// RunnerOf returns the id of the node that runs a name; empty if no node does.
func RunnerOf(ctx context.Context, s store.Store, name string) (string, error) {
	pair, known, err := get(ctx, s, PlaceKey(name))
	if err != nil || !known {
		return "", err
	}
	place, _, err := Decode[placement.Place](pair.Value)
	if err != nil || place.Released {
		return "", err
	}
	if _, alive, err := get(ctx, s, NodeKey(place.Node, place.Life)); err != nil || !alive {
		return "", err
	}
	return place.Node, nil
}
