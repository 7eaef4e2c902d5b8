package api

import "time"

// Nodes is the answer of GET api/nodes: the fleet that this client is a node of, as this node sees
// it.
type Nodes struct {
	Instance string `json:"instance"` // as Status.Instance
	// Fleet is whether the client is a node of a fleet. Otherwise the rest is empty.
	Fleet bool `json:"fleet"`
	FleetStatus
}

// FleetStatus describes a fleet as one node sees it.
type FleetStatus struct {
	// Node is the id of the node that answers.
	Node string `json:"node"`
	// Generation counts the changes of the definitions of servers.
	Generation uint64 `json:"generation"`
	// CutOffSince is since when this node has no lease; nil while it has one. It then runs no
	// exclusive server, and the rest is what it knew last.
	CutOffSince *time.Time `json:"cutOffSince,omitempty"`
	// CertificateExpires is when the certificate of this node does, after which other nodes cannot reach it; nil
	// without one.
	CertificateExpires *time.Time `json:"certificateExpires,omitempty"`
	// Fences counts how often this node has ended its exclusive servers because its lease had ended.
	Fences uint64 `json:"fences"`
	// Nodes are the nodes that have a lease, and this one, sorted by id.
	Nodes []Node `json:"nodes"`
	// Placements are all servers of the fleet, sorted by name.
	Placements []Placement `json:"placements"`
}

// Node is one node of a fleet.
type Node struct {
	ID string `json:"id"`
	// Life is the lease that the node has; empty if it has none. A node that was away has another
	// one.
	Life string `json:"life,omitempty"`
	// Address is where other nodes reach it; empty if they cannot.
	Address string            `json:"address,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	// Weight is its share of the servers, compared with the weights of other nodes.
	Weight float64 `json:"weight"`
	// Capacity is the largest number of servers that it takes; 0 means no limit.
	Capacity int `json:"capacity,omitempty"`
	// Draining: it takes no server, and hands over those that it has.
	Draining bool `json:"draining,omitempty"`
	// Servers counts the servers that are placed on it.
	Servers int `json:"servers"`
	// UnreachableSince is since when the node that answers cannot reach it; nil if it can, or has no
	// reason to try.
	UnreachableSince *time.Time `json:"unreachableSince,omitempty"`
}

// Placement says which node runs a server.
type Placement struct {
	Server string `json:"server"`
	// Exclusive: no two nodes run it at the same time.
	Exclusive bool `json:"exclusive,omitempty"`
	// Node is the id of the node; empty while none runs it.
	Node string `json:"node,omitempty"`
	// Epoch counts how often a node has taken the server.
	Epoch uint64 `json:"epoch"`
	// Reason says why no node runs it; empty if one does.
	Reason string `json:"reason,omitempty"`
}
