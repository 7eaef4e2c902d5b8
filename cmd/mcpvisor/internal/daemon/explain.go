package daemon

import (
	"slices"
	"sync"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/facade"
)

// countEnded counts the calls in flight of servers that a reload is about to end. ended adds to changes what became of them;
// it is to be called when the servers have changed.
func (r *reloader) countEnded(changes []control.Change) (ended func()) {
	inFlight := func(server string, gen uint64) (n int) {
		for _, c := range r.client.CallsInFlight() {
			if c.Server == server && c.Gen == gen && (c.Method == "tools/call" || c.Method == "resources/read" || c.Method == "prompts/get") {
				n++
			}
		}
		return n
	}
	seq, gens, before := r.client.Stats().Calls, make([]uint64, len(changes)), make([]int, len(changes))
	for i, c := range changes {
		if status, registered := r.client.ServerStatus(c.Server); registered && (c.Action == control.ActionReplace || c.Action == control.ActionRemove) {
			gens[i], before[i] = status.Gen, inFlight(c.Server, status.Gen)
		}
	}
	return func() {
		recent, _ := r.client.History().Calls(seq)
		for i := range changes {
			for _, c := range recent {
				if c.Server == changes[i].Server && c.Gen == gens[i] && (c.Kind == mcpvisor.ErrClosed || c.Kind == mcpvisor.ErrEnded) {
					changes[i].Cut++
				}
			}
			changes[i].Drained = max(before[i]-changes[i].Cut-inFlight(changes[i].Server, gens[i]), 0)
		}
	}
}

// maxExplanations is how many replacements are explained in events. Those before are forgotten.
const maxExplanations = 500

// explanations say how registrations differ from those that they have replaced. Safe for concurrent use.
type explanations struct {
	mu  sync.Mutex
	all []explanation // oldest first
}

type explanation struct {
	server string
	gen    uint64 // of the registration before
	text   string
}

// add keeps the differences of servers that are about to be replaced.
func (e *explanations) add(client *facade.Client, changes []control.Change) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range changes {
		if status, registered := client.ServerStatus(c.Server); registered && len(c.Differences) > 0 {
			e.all = append(e.all, explanation{c.Server, status.Gen, c.Text()})
		}
	}
	e.all = slices.Clone(e.all[max(len(e.all)-maxExplanations, 0):])
}

// of is an api.Program.Change.
func (e *explanations) of(server string, gen uint64) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, one := range slices.Backward(e.all) {
		if one.server == server && one.gen < gen {
			return one.text
		}
	}
	return ""
}
