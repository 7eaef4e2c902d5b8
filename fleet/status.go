package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/mcpvisor/mcpvisor/fleet/internal/boottime"
	"github.com/mcpvisor/mcpvisor/fleet/internal/protocol"
	"github.com/mcpvisor/mcpvisor/fleet/placement"
)

// Status describes a fleet as one node sees it.
type Status struct {
	// Node is the id of this node. Member: it has a lease, and takes part.
	Node   string `json:"node"`
	Member bool   `json:"member"`
	// LeaseEnds is when the lease of this node is over if it cannot be renewed; zero without a lease.
	LeaseEnds time.Time `json:"leaseEnds,omitzero"`
	// CertificateExpires is when the certificate of this node does; zero without one.
	CertificateExpires time.Time `json:"certificateExpires,omitzero"`
	// CutOffSince is when this node ceased to be a member; zero while it is one. Fences counts how often
	// that has happened because its lease had ended: its exclusive servers ended then.
	CutOffSince time.Time `json:"cutOffSince,omitzero"`
	Fences      uint64    `json:"fences,omitempty"`
	// StaleSince is when the store last said something, if that is longer ago than it should be: the
	// rest may be old. Zero: it is not.
	StaleSince time.Time `json:"staleSince,omitzero"`
	// Generation counts the configurations that were applied ([Node.Apply]). Applying: one has begun
	// and is not complete.
	Generation uint64 `json:"generation"`
	Applying   bool   `json:"applying,omitempty"`
	// Gateway is the definition of the gateways of all nodes ([WithGateway]); nil: the default.
	Gateway json.RawMessage `json:"gateway,omitempty"`
	// Nodes are those with a lease, by id.
	Nodes []NodeStatus `json:"nodes"`
	// Servers are those of the fleet, by name.
	Servers []ServerStatus `json:"servers"`
}

// NodeStatus is one node of the fleet.
type NodeStatus struct {
	ID       string            `json:"id"`
	Life     string            `json:"life"` // the lease that it has now
	Address  string            `json:"address,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Weight   float64           `json:"weight,omitempty"`
	Capacity int               `json:"capacity,omitempty"`
	// Draining: it hands over its servers and takes none.
	Draining bool `json:"draining,omitempty"`
	// Servers is how many servers it runs.
	Servers int `json:"servers"`
	// Unreachable says why this node cannot reach it; empty if it can, or has not tried.
	Unreachable string `json:"unreachable,omitempty"`
}

// ServerStatus says where a server of the fleet is.
type ServerStatus struct {
	Name      string            `json:"name"`
	Exclusive bool              `json:"exclusive,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	// Node runs it, in the placement with this Epoch; empty if none does.
	Node  string `json:"node,omitempty"`
	Epoch uint64 `json:"epoch,omitempty"`
	// Unplaced says why no node runs it; empty if one does.
	Unplaced string `json:"unplaced,omitempty"`
}

// staleAfter is how long the store may be silent: a watch of it says something every two seconds.
const staleAfter = 6 * time.Second

// Status returns what this node knows of the fleet. It returns even when the store does not answer.
func (n *Node) Status() Status {
	asking, cancel := context.WithTimeout(context.WithoutCancel(n.ctx), staleAfter)
	defer cancel()
	known, err := n.runner.Snapshot(asking)
	now, clock := boottime.Now(), time.Now()
	if err != nil { // it no longer decides
		return Status{Node: n.id, CutOffSince: clock}
	}
	at := func(boot time.Duration) time.Time { return clock.Add(boot - now) }
	s := Status{Node: n.id, Member: known.State == protocol.StateMember && n.inForce(), Fences: known.Fences, CertificateExpires: n.config.Identity.Expires(), Generation: known.Generation.Applied, Applying: known.Generation.Next != 0, Gateway: known.Gateway}
	if known.Life != "" && n.inForce() {
		s.LeaseEnds = at(known.Deadline)
	}
	if !s.Member {
		s.CutOffSince = at(cmp.Or(known.CutOff, known.Deadline))
	}
	if now-known.Heard > staleAfter {
		s.StaleSince = at(known.Heard)
	}
	unreachable := n.peers.unreachable()
	places := map[string]int{} // in Nodes, by life
	for _, life := range known.Nodes {
		if last := len(s.Nodes) - 1; last >= 0 && s.Nodes[last].ID == life.ID {
			s.Nodes = s.Nodes[:last] // the newer life of the same node
		}
		s.Nodes = append(s.Nodes, NodeStatus{ID: life.ID, Life: life.Life, Address: life.Address, Labels: life.Labels, Weight: life.Weight, Capacity: life.Capacity,
			Draining: life.Draining, Unreachable: unreachable[life.ID]})
		places[life.Life] = len(s.Nodes) - 1
	}
	for _, name := range known.Names {
		if !name.Known {
			continue
		}
		server := ServerStatus{Name: name.Name, Exclusive: name.Spec.Exclusive, Labels: name.Spec.Labels}
		if name.Alive && !name.Place.Released {
			server.Node, server.Epoch = name.Place.Node, name.Place.Epoch
			if i, ok := places[name.Place.Life]; ok {
				s.Nodes[i].Servers++
			}
		} else {
			server.Unplaced = whyUnplaced(name.Spec.Spec, known.Nodes)
			if err := n.unable(name.Name); err != nil {
				server.Unplaced += "; this node cannot: " + err.Error()
			}
		}
		s.Servers = append(s.Servers, server)
	}
	return s
}

// whyUnplaced says why no node runs a server.
func whyUnplaced(spec placement.Spec, nodes []placement.Node) string {
	fits, draining := 0, 0
	for _, node := range nodes {
		if !spec.Allows(node) {
			continue
		}
		if fits++; node.Draining {
			draining++
		}
	}
	switch {
	case len(nodes) == 0:
		return "no node has a lease"
	case fits == 0:
		return "no node has the labels that it asks for"
	case fits == draining:
		return "all nodes with its labels drain"
	}
	return "not taken yet; if it stays so, nodes are full or cannot run it: see their logs"
}
