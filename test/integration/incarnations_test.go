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
	highest := map[registration]uint64{} // the last epoch that was begun
	standbys := map[registration]*incarnation{}
	hasStandbys := map[registration]bool{}
	for _, e := range events {
		if e.Kind == mcpvisor.EventStandby || e.Kind == mcpvisor.EventStandbyLost {
			hasStandbys[registration{e.Server, e.Gen}] = true
		}
	}
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
		switch e.Kind {
		case mcpvisor.EventStandby:
			if e.Epoch <= highest[r] {
				violated("is a standby of an earlier epoch")
			}
			highest[r] = e.Epoch
			standbys[r] = &incarnation{server: e.Server, gen: e.Gen, epoch: e.Epoch}
			continue
		case mcpvisor.EventStandbyLost: // it may have been lost before it was announced
			highest[r] = max(highest[r], e.Epoch)
			continue
		default:
		}
		now := current[r]
		takesOver := e.Kind == mcpvisor.EventReady && last[r] == mcpvisor.EventDown && standbys[r] != nil && e.Epoch == standbys[r].epoch
		if !slices.Contains(successors[last[r]], e.Kind) && !takesOver {
			violated("cannot follow %q", last[r])
		}
		last[r] = e.Kind
		if takesOver {
			now, standbys[r] = standbys[r], nil
			current[r], all = now, append(all, now)
		}
		switch e.Kind {
		case mcpvisor.EventRegistered:
			continue
		case mcpvisor.EventConnecting:
			// A standby that was lost before it was ready has used an epoch, too.
			if e.Epoch <= highest[r] || e.Epoch != highest[r]+1 && !hasStandbys[r] {
				violated("is not the next epoch")
			}
			highest[r] = e.Epoch
			now = &incarnation{server: e.Server, gen: e.Gen, epoch: e.Epoch}
			current[r], all = now, append(all, now)
		case mcpvisor.EventReady:
			now.ready, now.pid = e.Time, e.PID
		case mcpvisor.EventDown:
			now.down = e.Time
			if e.Cause != nil && (e.Cause.Kind == supervisor.CauseRequested || e.Cause.Kind == supervisor.CauseRestart) {
				now.down = now.down.Add(stopGrace)
			}
		default:
		}
		if now != nil && e.Epoch != now.epoch {
			violated("has another epoch than %d", now.epoch)
		}
	}
	return all, wrong
}

// wrongBudgets checks the attempts of servers that are given up. Each failure spends one, only a
// stable session and a revival give them back, and nothing else follows the last one than the end
// that the policy has.
func wrongBudgets(ev evidence) (wrong []string) {
	attempts, parkedUntil := map[string]int{}, map[string]time.Time{}
	last := map[string]mcpvisor.EventKind{}
	for _, e := range ev.events {
		policy, bounded := ev.bounded[e.Server]
		if !bounded {
			continue
		}
		violated := func(format string, args ...any) {
			wrong = append(wrong, fmt.Sprintf("event %d (%s, epoch %d): ", e.Seq, e, e.Epoch)+fmt.Sprintf(format, args...))
		}
		spent := attempts[e.Server]
		switch e.Kind {
		case mcpvisor.EventRegistered, mcpvisor.EventStable:
			attempts[e.Server] = 0
		case mcpvisor.EventRetry:
			if e.Attempt != spent+1 || e.Attempt > policy.MaxAttempts {
				violated("is attempt %d of %d after %d", e.Attempt, policy.MaxAttempts, spent)
			}
			attempts[e.Server] = e.Attempt
		case mcpvisor.EventEvicted, mcpvisor.EventParked:
			if spent != policy.MaxAttempts {
				violated("comes after %d of %d attempts", spent, policy.MaxAttempts)
			}
			if parks := policy.ParkEvery > 0; parks != (e.Kind == mcpvisor.EventParked) {
				violated("is not what the policy says")
			}
			if e.RetryAt != nil {
				parkedUntil[e.Server] = *e.RetryAt
			}
		case mcpvisor.EventConnecting:
			if last[e.Server] == mcpvisor.EventEvicted {
				attempts[e.Server] = 0
			}
			if last[e.Server] == mcpvisor.EventParked && e.Time.Before(parkedUntil[e.Server].Add(-time.Millisecond)) {
				violated("comes before the end of the pause, %v", parkedUntil[e.Server])
			}
		default:
			continue
		}
		last[e.Server] = e.Kind
	}
	return wrong
}
