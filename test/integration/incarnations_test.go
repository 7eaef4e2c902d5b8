//go:build linux

package integration

import (
	"fmt"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// incarnation is one incarnation of a server, reconstructed from events.
type incarnation struct {
	server     string
	gen, epoch uint64
	pid        int
	// ready and down are zero if the incarnation never became ready, or is not down.
	ready, down time.Time
}

// stopGrace is how long a session that is stopped on request may still answer calls
// after its down event. A session that crashed has ended before its down event.
const stopGrace = time.Second

// served reports whether the incarnation was ready at some time of the interval.
func (l *incarnation) served(from, to time.Time) bool {
	return !l.ready.IsZero() && !l.ready.After(to) && (l.down.IsZero() || !l.down.Before(from))
}

// successors lists the kinds of events that may follow each kind within one
// registration. The key "" stands for the beginning.
var successors = map[mcpvisor.EventKind][]mcpvisor.EventKind{
	"":                         {mcpvisor.EventRegistered},
	mcpvisor.EventRegistered:   {mcpvisor.EventConnecting},
	mcpvisor.EventConnecting:   {mcpvisor.EventReady, mcpvisor.EventStartFailed, mcpvisor.EventConnecting, mcpvisor.EventUnregistered},
	mcpvisor.EventReady:        {mcpvisor.EventStable, mcpvisor.EventDown},
	mcpvisor.EventStable:       {mcpvisor.EventDown},
	mcpvisor.EventDown:         {mcpvisor.EventRetry, mcpvisor.EventParked, mcpvisor.EventEvicted, mcpvisor.EventConnecting, mcpvisor.EventUnregistered},
	mcpvisor.EventStartFailed:  {mcpvisor.EventRetry, mcpvisor.EventParked, mcpvisor.EventEvicted, mcpvisor.EventConnecting, mcpvisor.EventUnregistered},
	mcpvisor.EventRetry:        {mcpvisor.EventConnecting, mcpvisor.EventUnregistered},
	mcpvisor.EventParked:       {mcpvisor.EventConnecting, mcpvisor.EventUnregistered},
	mcpvisor.EventAuthRequired: {mcpvisor.EventConnecting, mcpvisor.EventUnregistered},
	mcpvisor.EventEvicted:      {mcpvisor.EventConnecting, mcpvisor.EventUnregistered},
}

// incarnations reconstructs the incarnations from the events. It also returns
// violations: a gap in the sequence, an order that no lifecycle has, an epoch that is
// not the next one, an event after the end of a registration.
func incarnations(events []mcpvisor.Event) (all []*incarnation, wrong []string) {
	type registration struct {
		server string
		gen    uint64
	}
	last := map[registration]mcpvisor.EventKind{}
	current := map[registration]*incarnation{}
	for i, e := range events {
		violated := func(format string, args ...any) {
			wrong = append(wrong, fmt.Sprintf("event %d (%s, gen %d, epoch %d): ", e.Seq, e, e.Gen, e.Epoch)+fmt.Sprintf(format, args...))
		}
		if e.Kind == mcpvisor.EventMissed {
			violated("events are missing")
			continue
		}
		if i > 0 && e.Seq != events[i-1].Seq+1 {
			violated("comes after %d", events[i-1].Seq)
		}
		r := registration{e.Server, e.Gen}
		if e.Kind == mcpvisor.EventLog || e.Kind == mcpvisor.EventResourceUpdated || e.Kind == mcpvisor.EventChanged {
			continue // sent by the server at any time
		}
		if !slices.Contains(successors[last[r]], e.Kind) {
			violated("cannot follow %q", last[r])
		}
		last[r] = e.Kind
		now := current[r]
		switch e.Kind {
		case mcpvisor.EventRegistered:
			continue
		case mcpvisor.EventConnecting:
			if now != nil && e.Epoch != now.epoch+1 || now == nil && e.Epoch != 1 {
				violated("is not the next epoch")
			}
			now = &incarnation{server: e.Server, gen: e.Gen, epoch: e.Epoch}
			current[r], all = now, append(all, now)
		case mcpvisor.EventReady:
			now.ready, now.pid = e.Time, e.PID
		case mcpvisor.EventDown:
			now.down = e.Time
			if e.Cause != nil && (e.Cause.Kind == supervisor.CauseRequested || e.Cause.Kind == supervisor.CauseRestart) {
				now.down = now.down.Add(stopGrace)
			}
		}
		if now != nil && e.Epoch != now.epoch {
			violated("has another epoch than %d", now.epoch)
		}
	}
	return all, wrong
}
