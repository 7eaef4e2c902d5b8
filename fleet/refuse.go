package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport/dial"
)

// What a fleet does not do with the servers that it places. It keeps one process of each running, on one of its nodes: all
// nodes list what that process lists, and each of them may call it.

// specOf makes the specification of a server from its definition. It refuses one that asks for what a fleet does not do.
func (n *Node) specOf(name string, definition json.RawMessage) (spec mcpvisor.ServerSpec, err error) {
	if spec, err = n.config.Resolve(name, definition); err != nil {
		return spec, err
	}
	var errs []error
	for _, g := range n.Client.Groups() {
		if slices.Contains(g.Members, name) {
			errs = append(errs, fmt.Errorf("group %q of node %q: %w", g.Name, n.id, errInGroup))
		}
	}
	for _, one := range []struct {
		asked bool
		field string
	}{{spec.Start == mcpvisor.StartLazy, "start (ServerSpec.Start)"}, {spec.IdleStop > 0, "idle_stop (ServerSpec.IdleStop)"}, {spec.Transient, "transient (ServerSpec.Transient)"}} {
		if one.asked {
			errs = append(errs, fmt.Errorf("%s: a fleet keeps its servers running, because any node may call one at any time; remove it, or run the server without a fleet", one.field))
		}
	}
	if len(errs) > 0 {
		return spec, invalid(name, errors.Join(errs...))
	}
	return spec, nil
}

// refuse says why a server of the fleet can be neither stopped nor in a group on one node.
func (n *Node) refuse(server string, o dial.Order) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.specs[server] == nil && !n.ours[server]:
		return nil
	case o == dial.OrderStop:
		return errors.New("a fleet keeps its servers running, and another node would start it; apply the servers of the fleet without it")
	}
	return errInGroup
}

var errInGroup = errors.New("a group ends and restarts its members on one node, and a fleet decides for all nodes where a server runs; leave it out of the group, and set ServerSpec.After for an order")

func invalid(server string, err error) error {
	return &mcpvisor.Error{Server: server, Op: "apply the servers of the fleet", Kind: mcpvisor.ErrInvalid, Outcome: mcpvisor.OutcomeNotSent, Cause: err}
}
