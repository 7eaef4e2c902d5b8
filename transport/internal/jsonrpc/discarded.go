package jsonrpc

import (
	"sync/atomic"

	"github.com/mcpvisor/mcpvisor"
)

// Discarded counts the messages of a server that were skipped, by reason; see
// mcpvisor.Discarded for the reasons. Safe for concurrent use.
type Discarded struct{ Malformed, Oversize, Unmatched, Dropped atomic.Uint64 }

// Counts returns the counts so far.
func (d *Discarded) Counts() mcpvisor.Discarded {
	return mcpvisor.Discarded{
		Malformed: d.Malformed.Load(),
		Oversize:  d.Oversize.Load(),
		Unmatched: d.Unmatched.Load(),
		Dropped:   d.Dropped.Load(),
	}
}
