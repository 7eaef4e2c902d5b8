package transport

import (
	"sync/atomic"

	"github.com/mcpvisor/mcpvisor"
)

// noise counts what was skipped.
type noise struct{ junk, oversize, unmatched, dropped atomic.Uint64 }

func (w *wire) noiseCounts() mcpvisor.Discarded {
	return mcpvisor.Discarded{
		Malformed: w.noise.junk.Load(),
		Oversize:  w.noise.oversize.Load(),
		Unmatched: w.noise.unmatched.Load(),
		Dropped:   w.noise.dropped.Load(),
	}
}
