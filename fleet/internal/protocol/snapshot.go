package protocol

import (
	"encoding/json"
	"time"

	"github.com/mcpvisor/mcpvisor/fleet/internal/records"
	"github.com/mcpvisor/mcpvisor/fleet/placement"
)

// Snapshot holds what a node knows at one time. Maps and definitions in it must not be changed.
type Snapshot struct {
	State State
	Life  string // "" without a lease
	// Deadline is when the life is over; without one it means nothing.
	Deadline time.Duration
	// Fences counts the lives that have ended because their lease had. CutOff is since when the node is no
	// member; 0 while it is one, and before it was one for the first time.
	Fences uint64
	CutOff time.Duration
	// Draining: the node hands over its servers and takes none. Drained: it has none left.
	Draining, Drained bool
	// Revision of the store that the node has seen, and when the store last said something. If
	// Heard is long ago, what follows may be old.
	Revision   int64
	Heard      time.Duration
	Generation records.Generation
	Gateway    json.RawMessage  // the definition of the gateways; nil without one
	Nodes      []placement.Node // all living lives, by life
	Names      []Name           // by name
	Malformed  int              // records that could not be read, each time
}

// Name is a server of the fleet, or one that was.
type Name struct {
	Name  string
	Spec  records.Spec
	Known bool            // it has a specification
	Place placement.Place // epoch 0: it has never run
	Alive bool            // the lease of the place's life lives
	Move  string          // the node that is to take it; "" if none is
	// Epoch of the server that runs on this node; 0: none does.
	Epoch uint64
}

// Snapshot copies what the node knows.
func (n *Node) Snapshot() Snapshot {
	s := Snapshot{
		State: n.state, Life: n.life, Deadline: n.deadline, Fences: n.fences, CutOff: n.cutOff, Draining: n.draining, Drained: n.saidDrained,
		Revision: n.watch.revision, Heard: n.watch.heard, Generation: n.generation, Gateway: n.gateway,
		Nodes: n.view.Lives(), Malformed: n.malformed,
	}
	names := n.view.Names()
	s.Names = make([]Name, len(names))
	for i, name := range names {
		record := Name{Name: name}
		record.Spec, record.Known = n.specs[name]
		record.Place, _ = n.view.Place(name)
		record.Alive = n.view.Alive(record.Place.Life)
		record.Move = n.view.Move(name)
		if server := n.servers[name]; server != nil {
			record.Epoch = server.epoch
		}
		s.Names[i] = record
	}
	return s
}
