package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
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
		return kill(d.servers.client, "files", func(pid int) { d.p.printFact(bold, "KILL", "files", "kill -9 %d, while it works on a call", pid) })
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

// suffer lets a fault happen, and checks what follows: a call in flight fails with an
// outcome, the tools of the server leave the listing, further calls fail at once, the other
// servers notice nothing, and the server comes back with its tools.
func (d *demo) suffer(ctx context.Context, f fault) error {
	if err := d.pause(ctx); err != nil {
		return err
	}
	status, _ := d.servers.client.ServerStatus(f.server)
	before := d.showTools(f.server, "")
	inFlight := make(chan callRecord, 1)
	if f.tool != "" {
		go func() {
			o := callRecord{server: f.server, key: "in flight"}
			_, o.err = d.servers.client.CallTool(ctx, f.tool, map[string]any{"key": o.key})
			inFlight <- o
		}()
	}
	if err := f.happen(ctx); err != nil {
		return err
	}
	if f.tool != "" {
		o := <-inFlight
		d.sideEffects = append(d.sideEffects, o)
		var e *mcpvisor.Error
		d.checks.expect("a call in flight of "+f.server+" fails as crashed, outcome unknown", errors.Is(o.err, mcpvisor.ErrCrashed) &&
			errors.As(o.err, &e) && e.Outcome == mcpvisor.OutcomeUnknown, "got %v", o.err)
		d.p.printFact(red, "call", f.server, "%s ✗ %s · its outcome is unknown, and the error says so", f.tool, kind(o.err))
	}
	if _, err := d.events.await(ctx, f.server, mcpvisor.EventRetry, status.Epoch); err != nil {
		return err
	}
	during := d.showTools(f.server, "none: the server is down")
	d.checks.expect("the tools of "+f.server+" are not listed while it is down", len(during) == 0, "%v are", during)
	if f.call != "" {
		err := d.call(ctx, f.call, nil)
		d.checks.expect("a call of "+f.server+" fails at once while it is down", errors.Is(err, mcpvisor.ErrUnavailable), "got %v", err)
	}
	d.checks.check("the other servers are not affected", d.call(ctx, "calc/add", map[string]any{"a": 1, "b": 1}))
	if _, err := d.events.await(ctx, f.server, mcpvisor.EventReady, status.Epoch+1); err != nil {
		return err
	}
	after := d.showTools(f.server, "")
	d.checks.expect("the tools of "+f.server+" come back", len(before) > 0 && slices.Equal(before, after), "%v were listed, and %v are", before, after)
	if f.call != "" {
		d.checks.check(f.server+" works again", d.call(ctx, f.call, nil))
	}
	return nil
}

// showTools prints and returns the listed tools of a server. none is printed if there are none.
func (d *demo) showTools(server, none string) []string {
	names := toolsOf(d.servers.client, server)
	text := strings.Join(names, " ")
	if text == "" {
		text = none
	}
	d.p.printFact(dim, "tools", server, "%s", text)
	return names
}
