package facts

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mcpvisor/mcpvisor/internal/retention"
	"github.com/mcpvisor/mcpvisor/monitor"
)

// RecentCalls keeps the last 500 calls of a client that have ended.
// The zero value is empty; the memory is allocated with the first call. Safe for
// concurrent use.
type RecentCalls struct {
	last atomic.Uint64 // Seq of the last record
	ring atomic.Pointer[callRing]
}

type callRing [retention.Calls]callSlot

// callSlot holds one record. Each slot has a mutex of its own, so callers that end at the
// same time do not wait for each other.
type callSlot struct {
	mu     sync.Mutex
	record monitor.CallRecord // guarded by mu; Seq is 0 while the slot is empty
}

// Add numbers a record and stores a copy of it.
func (r *RecentCalls) Add(record *monitor.CallRecord) {
	ring := r.ring.Load()
	if ring == nil {
		r.ring.CompareAndSwap(nil, new(callRing))
		ring = r.ring.Load()
	}
	record.Seq = r.last.Add(1)
	slot := &ring[record.Seq%retention.Calls]
	slot.mu.Lock()
	if slot.record.Seq < record.Seq { // a later one may have overtaken this one
		slot.record = *record
	}
	slot.mu.Unlock()
}

// Last returns the Seq of the last record; 0 before the first one.
func (r *RecentCalls) Last() uint64 { return r.last.Load() }

// After returns the records with a higher Seq than after, oldest first, and how many of
// these were overwritten. It ends before a record that is just being stored, so that one
// who continues after the last Seq misses none. If after is beyond the last record, it
// counts as 0: it is not from this client.
func (r *RecentCalls) After(after uint64) (records []monitor.CallRecord, missed uint64) {
	last, ring := r.last.Load(), r.ring.Load()
	if ring == nil {
		return nil, 0
	}
	if after > last {
		after = 0
	}
	if last > retention.Calls && after < last-retention.Calls {
		missed = last - retention.Calls - after
	}
	for seq := after + missed + 1; seq <= last; seq++ {
		slot := &ring[seq%retention.Calls]
		slot.mu.Lock()
		record := slot.record
		slot.mu.Unlock()
		switch {
		case record.Seq < seq:
			return records, missed
		case record.Seq > seq: // overwritten meanwhile, as were all before it
			missed += uint64(len(records)) + 1
			records = records[:0]
		default:
			records = append(records, record)
		}
	}
	return records, missed
}

// UnknownCalls keeps the last 100 calls of unknown outcome, which
// calls that succeed must not displace. The zero value is empty. Safe for concurrent use.
type UnknownCalls struct {
	mu      sync.Mutex
	records []monitor.CallRecord // guarded by mu; oldest first
}

// Add keeps a copy of a record.
func (u *UnknownCalls) Add(record *monitor.CallRecord) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.records) == retention.UnknownCalls {
		u.records = slices.Delete(u.records, 0, 1)
	}
	u.records = append(u.records, *record)
}

// Records returns a copy of the records, in the order of their Seq.
func (u *UnknownCalls) Records() []monitor.CallRecord {
	u.mu.Lock()
	defer u.mu.Unlock()
	records := slices.Clone(u.records)
	slices.SortFunc(records, func(a, b monitor.CallRecord) int { return int(int64(a.Seq - b.Seq)) })
	return records
}
