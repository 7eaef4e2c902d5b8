package actors

import (
	"cmp"
	"slices"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// CallsInFlight returns the requests of all servers that have not ended, the oldest first.
func (s *Snapshot) CallsInFlight() []mcpvisor.CallInFlight {
	var all []mcpvisor.CallInFlight
	for v := range s.all() {
		for _, inc := range []*incarnation{v.current, v.standby} {
			if inc != nil {
				all = inc.appendInFlight(all)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b mcpvisor.CallInFlight) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Server, b.Server))
	})
	return all
}

// appendInFlight appends the requests of one incarnation: those that its session has not
// ended, and those in the queue.
func (i *incarnation) appendInFlight(all []mcpvisor.CallInFlight) []mcpvisor.CallInFlight {
	add := func(requests []transport.InFlight, queued bool) {
		for _, r := range requests {
			all = append(all, mcpvisor.CallInFlight{Server: i.server, Gen: i.gen, Epoch: i.epoch,
				Method: r.Method, Target: shownTarget(r.Method, r.Target), Began: r.Began, Queued: queued})
		}
	}
	if lister, ok := i.session.(transport.RequestLister); ok {
		add(lister.InFlight(), false)
	}
	add(i.limiter.waitingCalls(), true)
	return all
}

// Stderr is what the latest incarnation has written to stderr.
func (v *View) Stderr() (s mcpvisor.ServerStderr) {
	if v.current == nil {
		return s
	}
	if source, ok := v.current.session.(transport.StderrSource); ok {
		s = source.StderrTail()
	}
	s.Epoch, s.Ended = v.current.epoch, isClosed(v.current.session.Released())
	return s
}
