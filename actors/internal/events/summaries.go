package events

import (
	"cmp"
	"hash/maphash"
	"math"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/retention"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

const (
	// maxSummariesBytes is how much memory the summaries may take.
	maxSummariesBytes = 4 << 20
	// maxOfSort is how many summaries of one sort a server has: further ones displace its own.
	maxOfSort = 20
	// maxPause is how long after its last event a summary takes another one.
	maxPause = time.Hour
	// replacedWithin is how long after the end of a registration the next one of the same name
	// counts as its replacement.
	replacedWithin = 10 * time.Second
	// What is kept of a cause.
	keptStderrLines = 12
	keptLineBytes   = 500
	keptTextBytes   = 1 << 10
)

// sort says which summaries displace each other: those of one server with an equal sort.
type sort struct {
	server string
	kind   mcpvisor.EventKind // EventDown stands for EventStartFailed, and EventChanged for EventReady, too
}

// similar says which events share a summary: those with an equal similar.
type similar struct {
	sort
	gen    uint64
	cause  supervisor.CauseKind
	detail uint64 // a hash of what has changed, or of the tool
}

// summary is one summary, and what it belongs to.
type summary struct {
	monitor.EventSummary
	similar similar
	bytes   int
}

// summaries fold the events about the life of servers. The mutex of the hub guards them.
type summaries struct {
	bySimilar map[similar]*summary // the last of each, which may take further events
	bySort    map[sort][]*summary  // all, in the order in which they began
	latest    map[string]*summary  // of each server that has one: what a later EventReady is about
	count     int
	bytes     int
	dropped   uint64 // summaries that were displaced
}

var seed = maphash.MakeSeed()

// similarOf says with which events an event is summarized. ok is false for a step on the way.
func similarOf(e *mcpvisor.Event) (s similar, ok bool) {
	s = similar{sort: sort{e.Server, e.Kind}, gen: e.Gen}
	switch e.Kind {
	case mcpvisor.EventRegistered, mcpvisor.EventUnregistered, mcpvisor.EventParked, mcpvisor.EventEvicted, mcpvisor.EventAuthRequired, mcpvisor.EventStandbyLost,
		mcpvisor.EventStopped, mcpvisor.EventGroupFailed:
	case mcpvisor.EventDown, mcpvisor.EventStartFailed:
		s.kind = mcpvisor.EventDown
		if e.Cause != nil {
			s.cause = e.Cause.Kind
		}
		if s.cause == supervisor.CauseRequested {
			return s, false // what follows says why: EventUnregistered, EventStopped, EventEvicted or EventGroupFailed
		}
	case mcpvisor.EventTaskLost, mcpvisor.EventTaskRecovered:
		s.detail = maphash.String(seed, e.Tool)
	case mcpvisor.EventChanged, mcpvisor.EventReady:
		if e.Change.IsZero() {
			return s, false
		}
		s.kind, s.detail = mcpvisor.EventChanged, hashChange(e.Change)
	case mcpvisor.EventConnecting, mcpvisor.EventRetry, mcpvisor.EventStable, mcpvisor.EventStandby, mcpvisor.EventResourceUpdated, mcpvisor.EventLog, mcpvisor.EventMissed,
		mcpvisor.EventWaiting, mcpvisor.EventAsleep:
		return s, false
	}
	return s, true
}

// hashChange returns the same number for changes of the same entries.
func hashChange(c *mcpvisor.Change) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, d := range []*mcpvisor.Delta{&c.Tools, &c.Resources, &c.Templates, &c.Prompts} {
		for _, names := range [][]string{d.Added, d.Removed, d.Changed} {
			for _, name := range names {
				_, _ = h.WriteString(name) // it never fails
				_ = h.WriteByte(0)
			}
			_ = h.WriteByte(1)
		}
	}
	return h.Sum64()
}

// add takes a numbered event.
func (all *summaries) add(e *mcpvisor.Event) {
	if e.Kind == mcpvisor.EventReady || e.Kind == mcpvisor.EventStandby {
		all.noteReady(e)
	}
	key, ok := similarOf(e)
	if !ok {
		return
	}
	s := all.bySimilar[key]
	last := all.latest[e.Server]
	switch {
	case s != nil && e.Time.Sub(s.Last.Time) < maxPause:
		s.Count++
		s.Ready = nil
	case e.Kind == mcpvisor.EventRegistered && last != nil && last.Last.Kind == mcpvisor.EventUnregistered && e.Time.Sub(last.Last.Time) < replacedWithin:
		seq := last.Seq // readers that follow know it by this number
		all.remove(last)
		s = all.begin(e, key)
		s.Seq, s.Replaces = seq, true
	default:
		s = all.begin(e, key)
	}
	s.Last, s.Updated = brief(e), e.Seq
	if e.Kind == mcpvisor.EventStartFailed {
		s.NeverReady++
	}
	if s.similar.kind != mcpvisor.EventStandbyLost && s.similar.kind != mcpvisor.EventTaskLost && s.similar.kind != mcpvisor.EventTaskRecovered {
		all.latest[e.Server] = s
	}
	all.resize(s)
	for all.count > retention.Summaries || all.bytes > maxSummariesBytes && all.count > 1 {
		all.dropped++
		all.remove(all.leastNeeded())
	}
}

// begin adds a summary. If its server has many of that sort, the oldest of these makes room.
func (all *summaries) begin(e *mcpvisor.Event, key similar) *summary {
	if all.bySort == nil {
		all.bySort, all.bySimilar, all.latest = map[sort][]*summary{}, map[similar]*summary{}, map[string]*summary{}
	}
	if same := all.bySort[key.sort]; len(same) >= maxOfSort {
		all.dropped++
		all.remove(slices.MinFunc(same, older))
	}
	s := &summary{EventSummary: monitor.EventSummary{Seq: e.Seq, Began: e.Time}, similar: key}
	s.Count = 1
	all.bySort[key.sort] = append(all.bySort[key.sort], s)
	all.bySimilar[key] = s
	all.count++
	return s
}

// older compares summaries by their last events.
func older(a, b *summary) int { return cmp.Compare(a.Last.Seq, b.Last.Seq) }

// leastNeeded is the oldest summary of the largest sort: who has much loses some of it first.
func (all *summaries) leastNeeded() *summary {
	var least *summary
	most := 0
	for _, same := range all.bySort {
		oldest := slices.MinFunc(same, older)
		if len(same) > most || len(same) == most && older(oldest, least) < 0 {
			most, least = len(same), oldest
		}
	}
	return least
}

func (all *summaries) remove(s *summary) {
	if same := slices.DeleteFunc(all.bySort[s.similar.sort], func(one *summary) bool { return one == s }); len(same) > 0 {
		all.bySort[s.similar.sort] = same
	} else {
		delete(all.bySort, s.similar.sort)
	}
	if all.bySimilar[s.similar] == s {
		delete(all.bySimilar, s.similar)
	}
	if all.latest[s.similar.server] == s {
		delete(all.latest, s.similar.server)
	}
	all.count--
	all.bytes -= s.bytes
}

// resize counts the memory of a summary again.
func (all *summaries) resize(s *summary) {
	all.bytes -= s.bytes
	s.bytes = bytesOf(&s.Last) + len(s.similar.server)
	all.bytes += s.bytes
}

// noteReady says when a server was ready again, or had a standby again.
func (all *summaries) noteReady(e *mcpvisor.Event) {
	s := all.latest[e.Server]
	if e.Kind == mcpvisor.EventStandby {
		s = all.bySimilar[similar{sort: sort{e.Server, mcpvisor.EventStandbyLost}, gen: e.Gen}]
	}
	if s == nil || s.similar.gen != e.Gen || s.Ready != nil || s.Last.Kind == mcpvisor.EventReady {
		return
	}
	at := e.Time
	s.Ready, s.Updated = &at, e.Seq
}

// brief is an event with a bounded copy of its cause.
func brief(e *mcpvisor.Event) mcpvisor.Event {
	short := *e
	if c := e.Cause; c != nil {
		stderr := c.Stderr[max(len(c.Stderr)-keptStderrLines, 0):]
		kept := &supervisor.Cause{Kind: c.Kind, Permanent: c.Permanent, Message: display.Shorten(c.Error(), keptTextBytes), ExitCode: c.ExitCode, Signal: c.Signal, RetryAfter: c.RetryAfter}
		for _, line := range stderr {
			kept.Stderr = append(kept.Stderr, display.Shorten(line, keptLineBytes))
		}
		short.Cause = kept
	}
	return short
}

// after returns the summaries that have changed after an event, in the order of their last events.
func (all *summaries) after(seq uint64) []monitor.EventSummary {
	list := make([]monitor.EventSummary, 0, min(all.count, math.MaxInt16))
	for _, same := range all.bySort {
		for _, s := range same {
			if s.Updated > seq {
				list = append(list, s.EventSummary)
			}
		}
	}
	slices.SortFunc(list, func(a, b monitor.EventSummary) int { return cmp.Compare(a.Last.Seq, b.Last.Seq) })
	return list
}
