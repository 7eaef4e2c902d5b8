package facts

import (
	"maps"
	"slices"
	"sync"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Incarnations counts the incarnations of one registration: how many were started, why
// they ended, and what they could not use of what they received. The zero value is empty.
// Safe for concurrent use.
type Incarnations struct {
	mu        sync.Mutex // guards the fields below
	starts    int64
	ends      map[supervisor.CauseKind]int64
	discarded mcpvisor.Discarded // of those that are released
	// open has a function for each of the others, which returns its counts so far.
	open map[uint64]func() mcpvisor.Discarded
}

// Started counts an incarnation. discarded returns what it has discarded so far.
func (i *Incarnations) Started(epoch uint64, discarded func() mcpvisor.Discarded) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.starts++
	if i.open == nil {
		i.open = map[uint64]func() mcpvisor.Discarded{}
	}
	i.open[epoch] = discarded
}

// Ended counts the end of an incarnation. Call it once for each.
func (i *Incarnations) Ended(kind supervisor.CauseKind) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ends == nil {
		i.ends = map[supervisor.CauseKind]int64{}
	}
	i.ends[kind]++
}

// Planned corrects the count of an end that turned out to be planned.
func (i *Incarnations) Planned(counted supervisor.CauseKind) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ends[counted]--; i.ends[counted] == 0 {
		delete(i.ends, counted)
	}
	i.ends[supervisor.CauseRequested]++
}

// Released keeps the counts of an incarnation that changes them no more. Call it once for
// each, after Started.
func (i *Incarnations) Released(epoch uint64) {
	i.mu.Lock()
	discarded := i.open[epoch]
	i.mu.Unlock()
	if discarded == nil {
		return
	}
	last := discarded() // without the mutex: it may take one of the session
	i.mu.Lock()
	defer i.mu.Unlock()
	i.discarded = sum(i.discarded, last)
	delete(i.open, epoch)
}

// AddTo writes the counts into totals.
func (i *Incarnations) AddTo(totals *mcpvisor.Totals) {
	i.mu.Lock()
	totals.Starts, totals.Ends, totals.Discarded = i.starts, maps.Clone(i.ends), i.discarded
	open := slices.Collect(maps.Values(i.open))
	i.mu.Unlock()
	for _, discarded := range open {
		totals.Discarded = sum(totals.Discarded, discarded())
	}
}

func sum(a, b mcpvisor.Discarded) mcpvisor.Discarded {
	return mcpvisor.Discarded{Malformed: a.Malformed + b.Malformed, Oversize: a.Oversize + b.Oversize,
		Unmatched: a.Unmatched + b.Unmatched, Dropped: a.Dropped + b.Dropped}
}
