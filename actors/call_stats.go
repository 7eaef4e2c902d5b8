package actors

import (
	"sync/atomic"

	"github.com/mcpvisor/mcpvisor"
)

// callStats counts the calls of a registration, over all its incarnations. Safe for
// concurrent use.
type callStats struct{ total, failed, inFlight, queued atomic.Int64 }

// begin counts a call that is sent to the server.
func (s *callStats) begin() {
	s.total.Add(1)
	s.inFlight.Add(1)
}

// end counts the end of a call.
func (s *callStats) end(failed bool) {
	s.inFlight.Add(-1)
	if failed {
		s.failed.Add(1)
	}
}

// counts are the numbers as users see them.
func (s *callStats) counts() mcpvisor.CallCounts {
	return mcpvisor.CallCounts{InFlight: s.inFlight.Load(), Queued: s.queued.Load(), Total: s.total.Load(), Failed: s.failed.Load()}
}
