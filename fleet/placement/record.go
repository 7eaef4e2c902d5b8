package placement

import "maps"

// Node is the record of a node. It lives as long as the lease of the node.
type Node struct {
	ID      string            `json:"id"`                // the same in every life
	Life    string            `json:"life"`              // one lease of the node; never used again
	Address string            `json:"address,omitempty"` // where its peers reach it
	Labels  map[string]string `json:"labels,omitempty"`
	// Weight is its share of the names, compared with the weights of other nodes; 0 means 1. The
	// least is 0.001.
	Weight float64 `json:"weight,omitempty"`
	// Capacity is the largest number of names that it takes; 0 means no limit.
	Capacity int `json:"capacity,omitempty"`
	// Draining: it takes no name and hands over those that it has.
	Draining bool `json:"draining,omitempty"`
}

func (n Node) weight() float64 {
	if n.Weight > 0 {
		return max(n.Weight, 0.001)
	}
	return 1
}

// Spec is the part of a server's specification that placement needs.
type Spec struct {
	// Exclusive: no two lives of the name may overlap. It must not change while the name has a
	// specification: a node that is cut off may run it as a shared one.
	Exclusive bool `json:"exclusive,omitempty"`
	// Labels are those that a node must have.
	Labels map[string]string `json:"labels,omitempty"`
}

// Equal reports whether the specifications are the same.
func (s Spec) Equal(other Spec) bool {
	return s.Exclusive == other.Exclusive && maps.Equal(s.Labels, other.Labels)
}

// Allows reports whether the node has the labels.
func (s Spec) Allows(n Node) bool {
	for label, value := range s.Labels {
		if has, ok := n.Labels[label]; !ok || has != value {
			return false
		}
	}
	return true
}

// Place says who runs a name. It is bound to no lease: it remains when its node has gone, so that
// epochs only grow.
type Place struct {
	Node  string `json:"node"`
	Life  string `json:"life"`
	Epoch uint64 `json:"epoch"` // of the name; each claim raises it by one
	// Released: the node has ended the server, and every node may claim the name.
	Released bool `json:"released,omitempty"`
}
