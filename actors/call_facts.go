package actors

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors/internal/facts"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/secret"
)

// callFacts are the facts about the calls of all servers together. Safe for concurrent
// use.
type callFacts struct {
	started       time.Time // of the runtime; does not change
	recent        facts.RecentCalls
	unknown       facts.UnknownCalls
	room          facts.Room // for tools with statistics of their own
	unknownServer atomic.Int64
}

// RecordCall records a call that has ended. v is the registration that it was for. listed:
// the server lists a tool of the name Target, so it may have statistics of its own. Of
// record, Seq, Server and Gen are set here, and Target is made safe to show.
func (rt *Runtime) RecordCall(v *View, record *mcpvisor.CallRecord, listed bool) {
	s := v.stats
	record.Server, record.Gen = v.Name, v.Gen
	if record.Kind != "" {
		s.countFailure(record)
	}
	if record.Method == "tools/call" {
		name := display.Prefix(record.Target, mcpvisor.MaxTargetBytes)
		tool := s.tools.Find(name)
		if tool == nil && listed {
			tool = s.tools.Of(name, &rt.calls.room)
		}
		if tool != nil {
			tool.Add(record)
		}
	}
	record.Target = shownTarget(record.Method, record.Target)
	rt.calls.recent.Add(record)
	if record.Outcome == mcpvisor.OutcomeUnknown {
		rt.calls.unknown.Add(record)
	}
}

// shownTarget returns the target of a request as operators see it: one line of at most
// mcpvisor.MaxTargetBytes, without the secrets in the URI of a resource. It is redacted
// before it is cut, so that no part of a secret stays.
func shownTarget(method, target string) string {
	if strings.HasPrefix(method, "resources/") {
		target = secret.RedactURI(target)
	}
	target = display.Prefix(target, mcpvisor.MaxTargetBytes)
	for i := range len(target) {
		if target[i] < ' ' || target[i] > '~' {
			return display.Prefix(display.Line(target), mcpvisor.MaxTargetBytes) // U+FFFD may be longer than what it replaces
		}
	}
	return target
}

// countFailure counts a call that has failed.
func (s *registrationStats) countFailure(record *mcpvisor.CallRecord) {
	switch record.Outcome {
	case mcpvisor.OutcomeNotSent:
		s.refused.Add(record.Kind)
		return
	case mcpvisor.OutcomeUnknown:
		s.unknown.Add(1)
	}
	s.failed.Add(record.Kind)
}

// RecordUnknownServer counts a call that named no registered server.
func (rt *Runtime) RecordUnknownServer() { rt.calls.unknownServer.Add(1) }

// RecentCalls returns the calls with a higher Seq than after that have ended, oldest first,
// and how many of these are not kept any more.
func (rt *Runtime) RecentCalls(after uint64) (records []mcpvisor.CallRecord, missed uint64) {
	return rt.calls.recent.After(after)
}

// UnknownCalls returns the last calls of unknown outcome, oldest first.
func (rt *Runtime) UnknownCalls() []mcpvisor.CallRecord { return rt.calls.unknown.Records() }

// ToolStats returns the statistics of the tools of a registration, by name.
func (v *View) ToolStats() []mcpvisor.ToolStats { return v.stats.tools.Stats(v.Name) }

// Stats returns the facts about the runtime as a whole.
func (rt *Runtime) Stats() mcpvisor.ClientStats {
	last, missed := rt.hub.Stats()
	return mcpvisor.ClientStats{Started: rt.calls.started, Events: last, MissedEvents: missed, Calls: rt.calls.recent.Last(),
		UnknownServer: rt.calls.unknownServer.Load(), StaleMessages: rt.Stale(), ManagerRestarts: max(rt.managers.Load(), 1) - 1}
}

// statsOf are the counts of one registration. The manager makes them.
func (rt *Runtime) statsOf(gen uint64) *registrationStats {
	if s, ok := rt.stats.Load(gen); ok {
		return s.(*registrationStats)
	}
	return &registrationStats{} // the registration has ended
}

// releaseStats forgets the counts of a registration that has ended.
func (rt *Runtime) releaseStats(gen uint64) {
	if s, ok := rt.stats.LoadAndDelete(gen); ok {
		s.(*registrationStats).tools.Release(&rt.calls.room)
	}
}
