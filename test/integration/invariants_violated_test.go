//go:build linux

package integration

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// TestViolations tests violations itself: it accepts correct evidence, and finds each
// kind of violation.
func TestViolations(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(1_000_000 + ms)) }
	event := func(ms int, seq, epoch uint64, kind mcpvisor.EventKind, pid int) mcpvisor.Event {
		return mcpvisor.Event{Seq: seq, Time: at(ms), Kind: kind, Server: "s", Gen: 1, Epoch: epoch, PID: pid, Cause: &supervisor.Cause{}}
	}
	// Incarnation 1 is ready from 10 to 50, incarnation 2 from 70 to 90.
	history := func() []mcpvisor.Event {
		return []mcpvisor.Event{
			event(0, 1, 1, mcpvisor.EventRegistered, 0), event(0, 2, 1, mcpvisor.EventConnecting, 0), event(10, 3, 1, mcpvisor.EventReady, 100),
			event(50, 4, 1, mcpvisor.EventDown, 0), event(50, 5, 1, mcpvisor.EventRetry, 0),
			event(60, 6, 2, mcpvisor.EventConnecting, 0), event(70, 7, 2, mcpvisor.EventReady, 200),
			event(90, 8, 2, mcpvisor.EventDown, 0), event(95, 9, 2, mcpvisor.EventUnregistered, 0),
		}
	}
	call := func(tool string, from, to int) *record {
		return &record{server: "s", tool: tool, key: "k", began: at(from), ended: at(to), bound: time.Second, text: "k"}
	}
	failed := func(tool string, from, to int, e *mcpvisor.Error) *record {
		r := call(tool, from, to)
		r.text, r.err = "", e
		return r
	}
	answeredBy := func(from, to, pid int, instance string) *record {
		r := call("pid", from, to)
		r.answeredBy = identity{PID: pid, Instance: instance}
		return r
	}
	crash := func(epoch uint64) *mcpvisor.Error {
		return &mcpvisor.Error{Gen: 1, Epoch: epoch, Kind: mcpvisor.ErrCrashed, Outcome: mcpvisor.OutcomeUnknown}
	}
	for name, tc := range map[string]struct {
		violated bool
		change   func(*evidence)
	}{
		"no calls":               {false, func(*evidence) {}},
		"answered":               {false, func(ev *evidence) { ev.records = []*record{call("echo", 20, 30)} }},
		"crashed":                {false, func(ev *evidence) { ev.records = []*record{failed("echo", 40, 55, crash(1))} }},
		"counted":                {false, func(ev *evidence) { ev.records, ev.executions["k"] = []*record{call("count", 20, 30)}, 1 }},
		"crashed and ran":        {false, func(ev *evidence) { ev.records, ev.executions["k"] = []*record{failed("count", 40, 55, crash(1))}, 1 }},
		"identified":             {false, func(ev *evidence) { ev.records = []*record{answeredBy(20, 30, 100, "a"), answeredBy(75, 80, 200, "b")} }},
		"never returned":         {true, func(ev *evidence) { ev.open = 1 }},
		"late":                   {true, func(ev *evidence) { ev.records = []*record{call("echo", 20, 20_000)} }},
		"answer to another call": {true, func(ev *evidence) { ev.records = []*record{{server: "s", tool: "echo", key: "k", text: "l"}} }},
		"ran twice":              {true, func(ev *evidence) { ev.records, ev.executions["k"] = []*record{call("count", 20, 30)}, 2 }},
		"never ran":              {true, func(ev *evidence) { ev.records = []*record{call("count", 20, 30)} }},
		"ran under another key":  {true, func(ev *evidence) { ev.records, ev.executions["k"] = []*record{call("echo", 20, 30)}, 1 }},
		"not an mcpvisor.Error":  {true, func(ev *evidence) { r := call("echo", 20, 30); r.err = errors.New("x"); ev.records = []*record{r} }},
		"unexplained error": {true, func(ev *evidence) {
			ev.records = []*record{failed("echo", 20, 30, &mcpvisor.Error{Kind: mcpvisor.ErrInvalid, Outcome: mcpvisor.OutcomeNotSent})}
		}},
		"no outcome": {true, func(ev *evidence) {
			ev.records = []*record{failed("echo", 20, 30, &mcpvisor.Error{Kind: mcpvisor.ErrTimeout})}
		}},
		"ran although not sent": {true, func(ev *evidence) {
			ev.records, ev.executions["k"] = []*record{failed("count", 20, 30, &mcpvisor.Error{Kind: mcpvisor.ErrUnavailable, Outcome: mcpvisor.OutcomeNotSent})}, 1
		}},
		"crash of a later epoch":              {true, func(ev *evidence) { ev.records = []*record{failed("echo", 20, 30, crash(2))} }},
		"crash of an earlier epoch":           {true, func(ev *evidence) { ev.records = []*record{failed("echo", 75, 80, crash(1))} }},
		"answer of a dead process":            {true, func(ev *evidence) { ev.records = []*record{answeredBy(55, 58, 100, "a")} }},
		"answer of another process":           {true, func(ev *evidence) { ev.records = []*record{answeredBy(20, 30, 200, "a")} }},
		"one instance in two epochs":          {true, func(ev *evidence) { ev.records = []*record{answeredBy(20, 30, 100, "a"), answeredBy(75, 80, 100, "a")} }},
		"answer after unregister":             {true, func(ev *evidence) { ev.records = []*record{answeredBy(96, 97, 200, "b")} }},
		"server without faults failed":        {true, func(ev *evidence) { ev.faultFree["s"] = true; ev.records = []*record{failed("echo", 40, 55, crash(1))} }},
		"event after unregister":              {true, func(ev *evidence) { ev.events = append(ev.events, event(99, 10, 2, mcpvisor.EventRetry, 0)) }},
		"ready twice":                         {true, func(ev *evidence) { ev.events[3].Kind = mcpvisor.EventReady }},
		"epoch skipped":                       {true, func(ev *evidence) { ev.events[5].Epoch, ev.events[6].Epoch = 3, 3 }},
		"ready of another epoch":              {true, func(ev *evidence) { ev.events[6].Epoch = 1 }},
		"event lost":                          {true, func(ev *evidence) { ev.events[8].Seq = 10 }},
		"a second incarnation without faults": {true, func(ev *evidence) { ev.faultFree["s"] = true }},
		"refused": {false, func(ev *evidence) {
			ev.narrow["s"] = true
			ev.records = []*record{failed("sleep", 20, 30, &mcpvisor.Error{Kind: mcpvisor.ErrOverloaded, Outcome: mcpvisor.OutcomeNotSent})}
		}},
		"never refused": {true, func(ev *evidence) { ev.narrow["s"] = true }},
		"refused elsewhere": {true, func(ev *evidence) {
			ev.records = []*record{failed("sleep", 20, 30, &mcpvisor.Error{Kind: mcpvisor.ErrOverloaded, Outcome: mcpvisor.OutcomeNotSent})}
		}},
		"lists of another incarnation": {true, func(ev *evidence) {
			ev.records = []*record{answeredBy(20, 30, 100, "a")}
			ev.starts = map[incarnationKey]int{{"s", 1, 1}: 7}
		}},
		"attempt counted":        {false, func(ev *evidence) { ev.bounded["s"] = evicting; ev.events[4].Attempt = 1 }},
		"attempt not counted":    {true, func(ev *evidence) { ev.bounded["s"] = evicting; ev.events[4].Attempt = 0 }},
		"too many attempts":      {true, func(ev *evidence) { ev.bounded["s"] = evicting; ev.events[4].Attempt = 3 }},
		"evicted early":          {true, func(ev *evidence) { ev.bounded["s"] = evicting; ev.events[4].Kind = mcpvisor.EventEvicted }},
		"evicted and not parked": {true, func(ev *evidence) { ev.bounded["s"] = parking; ev.events[4].Kind = mcpvisor.EventEvicted }},
		"events missed":          {true, func(ev *evidence) { ev.events[8].Kind = mcpvisor.EventMissed }},
	} {
		t.Run(name, func(t *testing.T) {
			ev := evidence{events: history(), executions: map[string]int{}, processes: map[string]bool{"s": true},
				inMemory: map[string]bool{}, overHTTP: map[string]bool{}, faultFree: map[string]bool{}, synced: map[string]bool{},
				narrow: map[string]bool{}, bounded: map[string]supervisor.Policy{}}
			tc.change(&ev)
			require.Equal(t, tc.violated, len(violations(ev)) > 0, violations(ev))
		})
	}
}
