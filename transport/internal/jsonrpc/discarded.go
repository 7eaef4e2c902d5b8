package jsonrpc

import (
	"sync/atomic"

	"github.com/mcpvisor/mcpvisor"
)

// Discarded counts what was skipped.
type Discarded struct{ Malformed, Oversize, Unmatched, Dropped atomic.Uint64 }

// Counts is what was discarded so far.
func (n *Discarded) Counts() mcpvisor.Discarded {
	return mcpvisor.Discarded{
		Malformed: n.Malformed.Load(),
		Oversize:  n.Oversize.Load(),
		Unmatched: n.Unmatched.Load(),
		Dropped:   n.Dropped.Load(),
	}
}
