package main

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// checks counts what was checked, and collects what failed.
type checks struct {
	count    int
	failures []string
}

func (c *checks) check(claim string, err error) {
	c.count++
	if err != nil {
		c.failures = append(c.failures, fmt.Sprintf("%s: %v", claim, err))
	}
}

func (c *checks) expect(claim string, holds bool, format string, args ...any) {
	var err error
	if !holds {
		err = fmt.Errorf(format, args...)
	}
	c.check(claim, err)
}

// print prints the result and returns the exit code.
func (c *checks) print(p *printer, seed int64) int {
	p.printLine(plainText, "")
	if len(c.failures) == 0 {
		p.printLine(green, "PASS  every call answered exactly once · every delay exact · no orphan process · no leaked goroutine (%d checks)", c.count)
		p.printLine(dim, "next  go run ./cmd/demo --config .mcp.json      the same with your own servers")
		return 0
	}
	for _, failure := range c.failures {
		p.printLine(red, "FAIL  %s", failure)
	}
	p.printLine(dim, "again go run ./cmd/demo --seed %d", seed)
	return 1
}

// finish checks what holds at the end, stops everything, and checks what holds
// after that.
func (d *demo) finish(goroutines int) {
	status, tools := d.servers.client.Status(), d.servers.client.Tools()
	d.p.printTable(status)
	d.checks.check("the registry shows the live sessions and nothing else", checkListing(status, tools))
	d.checks.check("the delays are exactly 500ms, 1s, 2s", checkDelays(d.events.all()))
	d.checks.expect("the watcher missed nothing", d.events.count("", mcpvisor.EventMissed) == 0, "it missed events")
	start := time.Now()
	err := d.servers.close()
	d.checks.check("closing is bounded", err)
	alive, started := d.servers.liveProcesses()
	d.checks.expect("no process is left", len(alive) == 0 && started > 0, "%v of %d are alive", alive, started)
	if err == nil {
		<-d.events.done
		d.checks.check("no goroutine is left", checkGoroutines(goroutines))
	}
	d.p.printLine(dim, "closed in %s · %d processes were started, %d are left", roundedDuration(time.Since(start)), started, len(alive))
}

// checkListing checks that exactly the tools of ready servers are listed.
func checkListing(status []mcpvisor.ServerStatus, tools []mcpvisor.Tool) error {
	listed := map[string]int{}
	for _, tool := range tools {
		listed[tool.Server]++
	}
	for _, s := range status {
		want := 0
		if s.State == supervisor.StateReady {
			want = s.Catalog.Tools
		}
		if listed[s.Name] != want {
			return fmt.Errorf("%s is %s, and %d of its tools are listed, not %d", s.Name, s.State, listed[s.Name], want)
		}
		delete(listed, s.Name)
	}
	if len(listed) > 0 {
		return fmt.Errorf("tools of unknown servers are listed: %v", listed)
	}
	return nil
}

// checkDelays checks every delay that was announced: the first after a stable
// session is 500 ms, each further one is twice as long, and no attempt is early.
func checkDelays(events []mcpvisor.Event) error {
	seen := map[string][]time.Duration{}
	waiting := map[string]mcpvisor.Event{}
	for _, ev := range events {
		switch ev.Kind {
		case mcpvisor.EventRetry:
			if want := baseDelay << (ev.Attempt - 1); ev.Delay != want {
				return fmt.Errorf("%s waited %v before try %d, not %v", ev.Server, ev.Delay, ev.Attempt, want)
			}
			seen[ev.Server] = append(seen[ev.Server], ev.Delay)
			waiting[ev.Server] = ev
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
	if got := seen["files"]; len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
		return fmt.Errorf("files waited %v, not %v", got, want)
	}
	return nil
}

// checkGoroutines waits until there are not more goroutines than at the start.
func checkGoroutines(start int) error {
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > start; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("there are %d, and were %d at the start", runtime.NumGoroutine(), start)
		}
	}
	return nil
}
