package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/mcptest/chaos"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// fault is something that happens to a server, and what follows.
type fault struct {
	server string
	// tool is called, and the call is in flight when the fault happens; empty for none.
	tool string
	// happen lets it happen, and prints it first.
	happen func(context.Context) error
	// call is a call that must work when the server is ready again.
	call string
}

// crash kills a server with a call in flight, and waits until it is ready again.
func (d *demo) crash(ctx context.Context) error {
	return d.suffer(ctx, fault{server: "files", tool: "files/slow", call: "files/read", happen: func(ctx context.Context) error {
		if err := d.awaitExecution(ctx, "files"); err != nil {
			return err
		}
		return d.kill("files", "KILL", ", while it works on a call")
	}})
}

// exit calls a tool whose server has done the work and exits before it has answered.
func (d *demo) exit(ctx context.Context) error {
	return d.suffer(ctx, fault{server: "flaky", tool: "flaky/commit", happen: func(ctx context.Context) error {
		d.p.printFact(bold, "EXIT", "flaky", "it does the work of a call, and exits in the middle of the answer")
		return d.awaitExecution(ctx, "flaky")
	}})
}

// hang calls a tool after which its server stops reading. Only a probe can tell.
func (d *demo) hang(ctx context.Context) error {
	return d.suffer(ctx, fault{server: "stuck", tool: "stuck/think", call: "stuck/count", happen: func(context.Context) error {
		d.p.printFact(bold, "HANG", "stuck", "it is alive, but reads nothing · after %s of silence it is probed %d times, and has %s to answer each",
			roundedDuration(probe.Interval), probe.Failures, roundedDuration(probe.Timeout))
		return nil
	}})
}

// loseSession restarts the server over HTTP, which forgets its sessions.
func (d *demo) loseSession(ctx context.Context) error {
	return d.suffer(ctx, fault{server: "remote", call: "remote/fetch", happen: func(context.Context) error {
		d.p.printFact(bold, "LOSE", "remote", "the server restarts, and knows no session of before")
		d.servers.remote.Restart()
		return nil
	}})
}

// failedStarts kills the server again; its next two starts fail.
func (d *demo) failedStarts(ctx context.Context) error {
	if err := d.events.await(ctx, "files", mcpvisor.EventStable, 2); err != nil {
		return err
	}
	d.p.printFact(dim, "stable", "files", "ready for %v: the budget of %d retries is full again", stableAfter, retries)
	if err := d.kill("files", "BREAK", ", and its next two starts will exit 1"); err != nil {
		return err
	}
	return d.events.await(ctx, "files", mcpvisor.EventReady, 5)
}

// eviction kills the server whose policy is not to retry.
func (d *demo) eviction(ctx context.Context) error {
	if err := backoff.Sleep(ctx, d.pace); err != nil {
		return err
	}
	before := d.showTools("legacy", "")
	if err := d.kill("legacy", "KILL", "; its policy is: no retry"); err != nil {
		return err
	}
	if err := d.events.await(ctx, "legacy", mcpvisor.EventEvicted, 1); err != nil {
		return err
	}
	err := d.call(ctx, "legacy/convert", nil)
	after := d.showTools("legacy", "none: the server was given up")
	d.expect("the tools of an evicted server leave the listing", len(before) > 0 && len(after) == 0, "%v were listed, and %v are", before, after)
	d.expect("a call of an evicted server fails at once", errors.Is(err, mcpvisor.ErrEvicted), "got %v", err)
	// The storm begins with full retry budgets.
	return d.events.await(ctx, "files", mcpvisor.EventStable, 5)
}

// awaitExecution waits until a server has begun to execute a call.
func (d *demo) awaitExecution(ctx context.Context, server string) error {
	for len(mcptest.Executions(d.servers.stateDir(server))) == 0 {
		if err := backoff.Sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// kill ends the process of a server as kill -9 does. It is printed before it has effects.
func (d *demo) kill(server, verb, what string) error {
	status, _ := d.client.ServerStatus(server)
	if status.State != supervisor.StateReady || status.Session == nil || status.Session.PID == 0 {
		return fmt.Errorf("%s has no process to kill", server)
	}
	process, err := os.FindProcess(status.Session.PID)
	if err != nil {
		return err
	}
	d.p.printFact(bold, verb, server, "kill -9 %d%s", process.Pid, what)
	return process.Kill()
}

// showTools prints the listed tools of a server, or none, and returns what chaos.Lists does.
func (d *demo) showTools(server, none string) map[string]string {
	lists, text := chaos.Lists(d.client, server), ""
	for _, entry := range slices.Sorted(maps.Keys(lists)) {
		if name, isTool := strings.CutPrefix(entry, "tool "); isTool {
			text += " " + name
		}
	}
	d.p.printFact(dim, "tools", server, "%s", cmp.Or(strings.TrimSpace(text), none))
	return lists
}

// suffer lets a fault happen, and checks what follows: a call in flight fails with an
// outcome, what the server offers leaves the listing, further calls fail at once, the other
// servers notice nothing, and the server comes back with what it offered.
func (d *demo) suffer(ctx context.Context, f fault) error {
	if err := backoff.Sleep(ctx, d.pace); err != nil {
		return err
	}
	status, _ := d.client.ServerStatus(f.server)
	before := d.showTools(f.server, "")
	inFlight := make(chan error, 1)
	if f.tool != "" {
		go func() {
			_, err := d.client.CallTool(ctx, f.tool, map[string]any{"key": "in flight"})
			inFlight <- err
		}()
	}
	if err := f.happen(ctx); err != nil {
		return err
	}
	if f.tool != "" {
		err := <-inFlight
		d.sideEffects = append(d.sideEffects, callRecord{server: f.server, key: "in flight", err: err})
		e := new(mcpvisor.Error)
		_ = errors.As(err, &e)
		d.expect("a call in flight of "+f.server+" fails as crashed, outcome unknown", errors.Is(err, mcpvisor.ErrCrashed) && e.Outcome == mcpvisor.OutcomeUnknown, "got %v", err)
		d.p.printFact(red, "call", f.server, "%s ✗ %s · its outcome is unknown, and the error says so", f.tool, string(e.Kind))
	}
	if err := d.events.await(ctx, f.server, mcpvisor.EventRetry, status.Epoch); err != nil {
		return err
	}
	during := d.showTools(f.server, "none: the server is down")
	d.expect("the tools of "+f.server+" are not listed while it is down", len(during) == 0, "%v are", during)
	if f.call != "" {
		err := d.call(ctx, f.call, nil)
		d.expect("a call of "+f.server+" fails at once while it is down", errors.Is(err, mcpvisor.ErrUnavailable), "got %v", err)
	}
	d.check("the other servers are not affected", d.call(ctx, "calc/add", map[string]any{"a": 1, "b": 1}))
	if err := d.events.await(ctx, f.server, mcpvisor.EventReady, status.Epoch+1); err != nil {
		return err
	}
	after := d.showTools(f.server, "")
	d.expect("the tools of "+f.server+" come back", len(before) > 0 && maps.Equal(before, after), "%v were listed, and %v are", before, after)
	if f.call != "" {
		d.check(f.server+" works again", d.call(ctx, f.call, nil))
	}
	return nil
}
