package facts

import (
	"slices"
	"sync"

	"github.com/mcpvisor/mcpvisor"
)

// UnknownCalls keeps the last mcpvisor.UnknownCallsLimit calls of unknown outcome, which
// calls that succeed must not displace. The zero value is empty. Safe for concurrent use.
type UnknownCalls struct {
	mu      sync.Mutex
	records []mcpvisor.CallRecord // guarded by mu; oldest first
}

// Add keeps a copy of a record.
func (u *UnknownCalls) Add(record *mcpvisor.CallRecord) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.records) == mcpvisor.UnknownCallsLimit {
		u.records = slices.Delete(u.records, 0, 1)
	}
	u.records = append(u.records, *record)
}

// Records returns a copy of the records, in the order of their Seq.
func (u *UnknownCalls) Records() []mcpvisor.CallRecord {
	u.mu.Lock()
	defer u.mu.Unlock()
	records := slices.Clone(u.records)
	slices.SortFunc(records, func(a, b mcpvisor.CallRecord) int { return int(int64(a.Seq - b.Seq)) })
	return records
}
