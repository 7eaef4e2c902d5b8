package facts

import (
	"slices"
	"sync/atomic"

	"github.com/mcpvisor/mcpvisor"
)

// maxKinds is the room for kinds of errors. The first place is for unknown ones.
const maxKinds = 24

// kinds are all kinds in a fixed order, and kindIndex their places in KindCounts.
var kinds, kindIndex = indexKinds()

func indexKinds() ([]mcpvisor.ErrorKind, map[mcpvisor.ErrorKind]int) {
	all := append(mcpvisor.ErrorKinds(), "")
	slices.Sort(all)
	index := make(map[mcpvisor.ErrorKind]int, len(all))
	for i, k := range all {
		index[k] = i
	}
	return all, index
}

// KindCounts counts errors by their kind. The zero value is empty. Safe for concurrent use.
type KindCounts [maxKinds]atomic.Int64

// Add counts an error.
func (c *KindCounts) Add(k mcpvisor.ErrorKind) { c[kindIndex[k]].Add(1) }

// Counts returns the kinds that were counted; nil if there are none.
func (c *KindCounts) Counts() (counts map[mcpvisor.ErrorKind]int64) {
	for i, k := range kinds {
		if n := c[i].Load(); n > 0 {
			if counts == nil {
				counts = map[mcpvisor.ErrorKind]int64{}
			}
			counts[k] = n
		}
	}
	return counts
}
