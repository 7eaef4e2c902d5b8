package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// settings are the options of the command line.
type settings struct {
	seed  int64
	storm time.Duration
	pace  time.Duration
	http  string   // address of the page; empty without one
	files []string // configuration files; none means the servers of the demo

	noColor bool
}

// demo is one run of the program. Its fields belong to the goroutine of run, except
// for events and p, which are safe for concurrent use.
type demo struct {
	settings
	p           *printer
	servers     *servers
	events      *eventLog
	sideEffects []callRecord // calls before the storm that count executions
	checks      checks
}

// maxDuration bounds the steps of the demo, whatever breaks.
const maxDuration = 2 * time.Minute

// run runs the demo and returns the exit code.
func run(ctx context.Context, p *printer, s settings) int {
	goroutines := runtime.NumGoroutine()
	st, err := newServers()
	if err != nil {
		p.printLine(red, "FAIL  the servers could not be prepared: %v", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(st.dir) }()
	var shown *page
	if s.http != "" {
		if shown, err = servePage(st.client, s.http); err != nil {
			p.printLine(red, "FAIL  the page cannot be served: %v", err)
			_ = st.close() // it has no servers yet
			return 1
		}
		p.printLine(bold, "page  %s", shown.url)
	}
	d := &demo{settings: s, p: p, servers: st}
	d.events = newEventLog(p, st.client.Watch(context.Background()))
	err = d.runSteps(ctx)
	d.checks.check("the demo ran to its end", err)
	if shown != nil {
		if err == nil {
			p.printLine(bold, "the servers and the page %s stay until you press Ctrl-C", shown.url)
			<-ctx.Done()
		}
		d.checks.check("the page ends", shown.close())
	}
	d.finish(goroutines)
	return d.checks.print(p, s.seed)
}

func (d *demo) runSteps(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxDuration)
	defer cancel()
	for _, step := range []func(context.Context) error{d.startServers, d.calls, d.crash, d.failedStarts, d.eviction, d.exit, d.hang, d.loseSession, d.runStorm} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// startServers starts the servers.
func (d *demo) startServers(ctx context.Context) error {
	d.p.printLine(bold, "6 MCP servers: 5 processes (this binary, executed again), one over HTTP · seed %d", d.seed)
	d.p.printLine(dim, "every line is measured, and checked at the end")
	d.p.printLine(plainText, "")
	specs := d.servers.specs()
	start := time.Now()
	if err := d.servers.client.RegisterAll(ctx, specs); err != nil {
		return err
	}
	took := time.Since(start)
	for _, spec := range specs {
		if _, err := d.events.await(ctx, spec.Name, mcpvisor.EventReady, 1); err != nil {
			return err
		}
	}
	d.p.printTable(d.servers.client.Status())
	d.p.printLine(dim, "all ready in %s · %d tools · \"search\" of two servers is files/search and legacy/search",
		roundedDuration(took), len(d.servers.client.Tools()))
	d.p.printLine(plainText, "")
	return nil
}

// calls shows results, a misspelt name, and an error of a tool.
func (d *demo) calls(ctx context.Context) error {
	for _, c := range []struct {
		tool string
		args map[string]any
		want error
	}{
		{"calc/add", map[string]any{"a": 2, "b": 40}, nil},
		{"files/read", map[string]any{"path": "notes.txt"}, nil},
		{"calc/ad", map[string]any{"a": 1}, mcpvisor.ErrUnknownTool},
		{"calc/div", map[string]any{"a": 1, "b": 0}, nil},
	} {
		if err := d.pause(ctx); err != nil {
			return err
		}
		if err := d.call(ctx, c.tool, c.args); !errors.Is(err, c.want) {
			return fmt.Errorf("%s: %w, want %v", c.tool, err, c.want)
		}
	}
	return nil
}

// call makes one call and prints how it went.
func (d *demo) call(ctx context.Context, tool string, args map[string]any) error {
	start := time.Now()
	res, err := d.servers.client.CallTool(ctx, tool, args)
	took := roundedDuration(time.Since(start))
	server, _, _ := mcpvisor.SplitName(tool)
	var e *mcpvisor.Error
	switch {
	case errors.As(err, &e) && e.RetryAfter > 0:
		d.p.printFact(red, "call", server, "%s ✗ %s · retry in %s · answered in %s", tool, e.Kind, roundedDuration(e.RetryAfter), took)
	case errors.As(err, &e):
		d.p.printFact(red, "call", server, "%s ✗ %s · %s", tool, e.Kind, e.Hint)
	case err != nil:
		d.p.printFact(red, "call", server, "%s ✗ %v", tool, err)
	case res.IsError:
		d.p.printFact(yellow, "call", server, "%s ! the tool says: %s (a result, not a failed call)", tool, text(res))
	default:
		d.p.printFact(cyan, "call", server, "%s → %s   %s", tool, text(res), took)
	}
	return err
}

func kind(err error) string {
	if e := (*mcpvisor.Error)(nil); errors.As(err, &e) {
		return string(e.Kind)
	}
	return "another error"
}

func text(res *mcp.CallToolResult) string {
	if len(res.Content) > 0 {
		if c, ok := res.Content[0].(*mcp.TextContent); ok {
			return c.Text
		}
	}
	return "(no text)"
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

// failedStarts kills the server again; its next two starts fail.
func (d *demo) failedStarts(ctx context.Context) error {
	if _, err := d.events.await(ctx, "files", mcpvisor.EventStable, 2); err != nil {
		return err
	}
	d.p.printFact(dim, "stable", "files", "ready for %v: the budget of %d retries is full again", stableAfter, retries)
	if err := kill(d.servers.client, "files", func(pid int) {
		d.p.printFact(bold, "BREAK", "files", "kill -9 %d, and its next two starts will exit 1", pid)
	}); err != nil {
		return err
	}
	_, err := d.events.await(ctx, "files", mcpvisor.EventReady, 5)
	return err
}

// eviction kills the server whose policy is not to retry.
func (d *demo) eviction(ctx context.Context) error {
	if err := d.pause(ctx); err != nil {
		return err
	}
	before := d.showTools("legacy", "")
	if err := kill(d.servers.client, "legacy", func(pid int) { d.p.printFact(bold, "KILL", "legacy", "kill -9 %d; its policy is: no retry", pid) }); err != nil {
		return err
	}
	if _, err := d.events.await(ctx, "legacy", mcpvisor.EventEvicted, 1); err != nil {
		return err
	}
	err := d.call(ctx, "legacy/convert", nil)
	after := d.showTools("legacy", "none: the server was given up")
	d.checks.expect("the tools of an evicted server leave the listing", len(before) == 2 && len(after) == 0, "%v were listed, and %v are", before, after)
	d.checks.expect("a call of an evicted server fails at once", errors.Is(err, mcpvisor.ErrEvicted), "got %v", err)
	// The storm begins with full retry budgets.
	_, err = d.events.await(ctx, "files", mcpvisor.EventStable, 5)
	return err
}

// pause waits between steps, so that the output can be read.
func (d *demo) pause(ctx context.Context) error { return backoff.Sleep(ctx, d.pace) }
