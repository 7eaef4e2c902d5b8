package actors

import (
	"sync/atomic"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors/internal/facts"
)

// registrationStats are the counts of one registration, over all its incarnations. The
// manager makes them, and views, incarnations and calls share them. Safe for concurrent
// use.
type registrationStats struct {
	calls        callStats
	tools        facts.Tools
	incarnations facts.Incarnations
	// refused counts calls of which nothing was sent, failed all others that failed;
	// unknown those of the latter whose outcome is unknown.
	refused, failed facts.KindCounts
	unknown         atomic.Int64
}

// totals are the counts as users see them. What the lifecycle counts is in the view.
func (s *registrationStats) totals() (t mcpvisor.Totals) {
	s.incarnations.AddTo(&t)
	t.Unknown = s.unknown.Load()
	t.Refused, t.Failed = s.refused.Counts(), s.failed.Counts()
	return t
}

// callStats counts the calls of a registration, over all its incarnations. Safe for
// concurrent use.
//
// The order of the changes in begin and end, and of the reads in counts, makes the
// numbers fit each other: a call that total has is in flight, or has ended and is in
// failed if it failed.
type callStats struct{ total, failed, inFlight, queued atomic.Int64 }

// begin counts a call that is sent to the server.
func (s *callStats) begin() {
	s.inFlight.Add(1)
	s.total.Add(1)
}

// end counts the end of a call.
func (s *callStats) end(failed bool) {
	if failed {
		s.failed.Add(1)
	}
	s.inFlight.Add(-1)
}

// counts are the numbers as users see them.
func (s *callStats) counts() (c mcpvisor.CallCounts) {
	c.Total = s.total.Load()
	c.InFlight, c.Queued = s.inFlight.Load(), s.queued.Load()
	c.Failed = s.failed.Load()
	return c
}
