package main

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// expect counts a check, and records it if it failed.
func (d *demo) expect(claim string, holds bool, format string, args ...any) {
	if d.checks++; !holds {
		d.failures = append(d.failures, claim+": "+fmt.Sprintf(format, args...))
	}
}

func (d *demo) check(claim string, err error) { d.expect(claim, err == nil, "%v", err) }

// checkGoroutines waits until there are not more goroutines than at the start.
func checkGoroutines(start int) error {
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > start; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("there are %d, and were %d at the start", runtime.NumGoroutine(), start)
		}
	}
	return nil
}

// checkListing checks that exactly the tools of ready servers are listed.
func checkListing(status []mcpvisor.ServerStatus, tools []mcpvisor.Tool) error {
	listed := map[string]int{}
	for _, tool := range tools {
		listed[tool.Server]++
	}
	for _, s := range status {
		if s.State == supervisor.StateReady {
			listed[s.Name] -= s.Catalog.Tools
		}
	}
	for name, more := range listed {
		if more != 0 {
			return fmt.Errorf("%d tools of %s are listed beside those of a ready server", more, name)
		}
	}
	return nil
}

// checkDelays checks every delay that was announced: the first after a stable
// session is 500 ms, each further one is twice as long, and no attempt is early.
func checkDelays(events []mcpvisor.Event) error {
	var files []time.Duration
	waiting := map[string]mcpvisor.Event{}
	for _, ev := range events {
		switch ev.Kind {
		case mcpvisor.EventRetry:
			if want := baseDelay << (ev.Attempt - 1); ev.Delay != want {
				return fmt.Errorf("%s waited %v before try %d, not %v", ev.Server, ev.Delay, ev.Attempt, want)
			}
			if waiting[ev.Server] = ev; ev.Server == "files" {
				files = append(files, ev.Delay)
			}
		case mcpvisor.EventConnecting:
			// RetryAt is the time that was announced. The time of the event is later.
			if w, ok := waiting[ev.Server]; ok && (w.RetryAt == nil || ev.Time.Before(*w.RetryAt)) {
				return fmt.Errorf("%s was tried again after %v instead of %v", ev.Server, ev.Time.Sub(w.Time), w.Delay)
			}
			delete(waiting, ev.Server)
		default:
		}
	}
	want := []time.Duration{500 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second}
	if len(files) < len(want) || !slices.Equal(files[:len(want)], want) {
		return fmt.Errorf("files waited %v, not %v", files, want)
	}
	return nil
}

// checkExecutions checks that a call that succeeded was executed once and answered
// with its own result, that one of outcome not sent was not executed, and that one
// of unknown outcome was executed at most once.
func checkExecutions(all []callRecord, executed map[string]map[string]int) error {
	calls := 0
	for _, o := range all {
		n := executed[o.server][o.key]
		calls += n
		var e *mcpvisor.Error
		switch {
		case o.err == nil && (n != 1 || o.answer != o.key):
			return fmt.Errorf("%q on %s succeeded, was executed %d times and answered with %q", o.key, o.server, n, o.answer)
		case o.err == nil:
		case !errors.As(o.err, &e):
			return fmt.Errorf("%q on %s ended with an error that is not a mcpvisor.Error: %w", o.key, o.server, o.err)
		case e.Outcome == mcpvisor.OutcomeNotSent && n != 0:
			return fmt.Errorf("the error about %q on %s says not sent, and it was executed %d times", o.key, o.server, n)
		case n > 1:
			return fmt.Errorf("%q on %s was executed %d times", o.key, o.server, n)
		}
	}
	for _, keys := range executed {
		for _, n := range keys {
			calls -= n
		}
	}
	if calls != 0 {
		return fmt.Errorf("the servers executed %d calls more than were made", -calls)
	}
	return nil
}
