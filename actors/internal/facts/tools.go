package facts

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/latency"
	"github.com/mcpvisor/mcpvisor/internal/retention"
	"github.com/mcpvisor/mcpvisor/monitor"
)

// Tools has the statistics of the tools of one registration. The zero value is empty. Safe
// for concurrent use.
type Tools struct {
	// byName is replaced as a whole when a tool is called for the first time, so that calls
	// find their tool without a lock. Written with mu held.
	byName atomic.Pointer[map[string]*Tool]
	mu     sync.Mutex
	named  int64 // guarded by mu: tools in byName that count in Room
	closed bool  // guarded by mu: Release was called
}

// ToolRoom bounds how many tools of all registrations of a client have statistics of their
// own. The zero value has room for 1000.
type ToolRoom struct{ used atomic.Int64 }

// take takes one place. It reports false if all are taken.
func (r *ToolRoom) take() bool {
	for {
		n := r.used.Load()
		if n >= retention.ToolStats {
			return false
		}
		if r.used.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Tool has the statistics of one tool. Safe for concurrent use.
type Tool struct {
	// Name is the server's own name of the tool. It does not change.
	Name string

	calls, toolErrors, unknown, refused atomic.Int64
	failed                              KindCounts
	durations                           latency.Recorder
}

// Find returns the statistics of a tool that was called before; nil if it was not.
func (t *Tools) Find(name string) *Tool {
	if m := t.byName.Load(); m != nil {
		return (*m)[name]
	}
	return nil
}

// Of returns the statistics of a tool that the server lists. Without room they are those
// of monitor.OtherTools.
func (t *Tools) Of(name string, room *ToolRoom) *Tool {
	if tool := t.Find(name); tool != nil {
		return tool
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if tool := t.Find(name); tool != nil {
		return tool
	}
	switch {
	case !t.closed && room.take():
		t.named++
		name = strings.Clone(name) // a shared one would keep the memory of its list alive
	default:
		if name = monitor.OtherTools; t.Find(name) != nil {
			return t.Find(name)
		}
	}
	next := map[string]*Tool{}
	if m := t.byName.Load(); m != nil {
		next = maps.Clone(*m)
	}
	tool := &Tool{Name: name}
	next[name] = tool
	t.byName.Store(&next)
	return tool
}

// Release returns the places of the tools. Call it when the registration has ended.
func (t *Tools) Release(room *ToolRoom) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	room.used.Add(-t.named)
	t.named = 0
}

// Stats returns the statistics of all tools, by name.
func (t *Tools) Stats(server string) []monitor.ToolStats {
	m := t.byName.Load()
	if m == nil {
		return nil
	}
	stats := make([]monitor.ToolStats, 0, len(*m))
	for _, name := range slices.Sorted(maps.Keys(*m)) {
		stats = append(stats, (*m)[name].stats(server))
	}
	return stats
}

// Add counts a call that has ended.
func (t *Tool) Add(r *monitor.CallRecord) {
	if r.Outcome == mcpvisor.OutcomeNotSent {
		t.refused.Add(1)
		return
	}
	switch {
	case r.Kind != "":
		t.failed.Add(r.Kind)
		if r.Outcome == mcpvisor.OutcomeUnknown {
			t.unknown.Add(1)
		}
	case r.ToolError:
		t.toolErrors.Add(1)
	}
	t.durations.Record(r.Took)
	t.calls.Add(1)
}

// stats returns the numbers. Calls is read first, so that each call that it counts is in
// the others.
func (t *Tool) stats(server string) monitor.ToolStats {
	s := monitor.ToolStats{Server: server, Name: mcpvisor.Qualify(server, t.Name), OriginalName: t.Name, Calls: t.calls.Load()}
	if t.Name == monitor.OtherTools {
		s.Name = t.Name
	}
	t.durations.Each(func(upTo time.Duration, n int64) {
		s.Duration.Count += n
		s.Duration.Buckets = append(s.Duration.Buckets, monitor.HistogramBucket{UpTo: upTo, Count: n})
	})
	s.Duration.Sum, s.Duration.Max = t.durations.Sum(), t.durations.Max()
	s.ToolErrors, s.Unknown, s.Refused, s.Failed = t.toolErrors.Load(), t.unknown.Load(), t.refused.Load(), t.failed.Counts()
	return s
}

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
