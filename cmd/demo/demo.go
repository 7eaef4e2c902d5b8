package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// settings are the options of the command line.
type settings struct {
	seed  int64
	storm time.Duration
	pace  time.Duration // between steps, so that the output can be read
	http  string        // address of the page; empty without one
}

// demo is one run of the program. Its fields belong to the goroutine of run, except
// for events and p, which are safe for concurrent use.
type demo struct {
	settings
	p           *printer
	client      *facade.Client
	events      *eventLog
	servers     *servers
	sideEffects []callRecord // calls before the storm that count executions

	goroutines int // before the demo
	checks     int
	failures   []string
}

// maxDuration bounds the steps of the demo, whatever breaks, and closeTimeout its end.
const (
	maxDuration  = 2 * time.Minute
	closeTimeout = 20 * time.Second
)

// open makes a client, and servers that it does not start yet.
func open(p *printer, s settings) (d *demo, err error) {
	d = &demo{settings: s, p: p, goroutines: runtime.NumGoroutine()}
	if d.servers, err = newServers(); err != nil {
		return nil, fmt.Errorf("the servers could not be prepared: %w", err)
	}
	if d.client, err = facade.New(); err != nil {
		return nil, err
	}
	d.events = newEventLog(p, d.client.Watch(context.Background()))
	return d, nil
}

// run runs the demo and returns the exit code.
func run(ctx context.Context, p *printer, s settings) int {
	l, err := listen(s.http)
	if err != nil {
		p.printLine(red, "FAIL  the page cannot be served: %v", err)
		return 1
	}
	d, err := open(p, s)
	if err != nil {
		p.printLine(red, "FAIL  %v", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(d.servers.dir) }()
	if l != nil {
		err = d.runWithPage(ctx, l)
	} else {
		err = d.runSteps(ctx)
	}
	d.check("the demo ran to its end", err)
	return d.finish()
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

// finish checks what holds at the end, stops the servers, prints the result, and returns the exit code.
func (d *demo) finish() int {
	status, tools := d.client.Status(), d.client.Tools()
	d.p.printTable(status)
	events := d.events.all()
	d.check("the registry shows the live sessions and nothing else", checkListing(status, tools))
	d.check("the delays are exactly 500ms, 1s, 2s", checkDelays(events))
	missed := slices.ContainsFunc(events, func(ev mcpvisor.Event) bool { return ev.Kind == mcpvisor.EventMissed })
	d.expect("the watcher missed nothing", !missed, "it missed events")
	d.close()
	if len(d.failures) == 0 {
		d.p.printLine(green, "PASS  every call answered exactly once · every delay exact · no orphan process · no leaked goroutine (%d checks)", d.checks)
		d.p.printLine(dim, "next  go run ./cmd/mcpvisor chaos      faults for copies of your own servers")
		return 0
	}
	for _, failure := range d.failures {
		d.p.printLine(red, "FAIL  %s", failure)
	}
	d.p.printLine(dim, "again go run ./cmd/demo --seed %d", d.seed)
	return 1
}

// close ends the client and the servers, and checks that nothing is left.
func (d *demo) close() {
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := d.client.Close(ctx)
	d.check("closing is bounded", err)
	started := d.servers.close()
	alive := slices.DeleteFunc(slices.Clone(started), func(pid int) bool { return !mcptest.Alive(pid) })
	d.expect("no process is left", len(alive) == 0 && len(started) >= len(d.servers.specs), "%v of %d are alive", alive, len(started))
	if err == nil {
		<-d.events.done
		d.check("no goroutine is left", checkGoroutines(d.goroutines))
	}
	d.p.printLine(dim, "closed in %s · %d processes were started, %d are left", roundedDuration(time.Since(start)), len(started), len(alive))
	d.p.printLine(plainText, "")
}

// startServers starts the servers.
func (d *demo) startServers(ctx context.Context) error {
	d.p.printLine(bold, "6 MCP servers: 5 processes (this binary, executed again), one over HTTP · seed %d", d.seed)
	d.p.printLine(dim, "every line is measured, and checked at the end")
	d.p.printLine(plainText, "")
	start := time.Now()
	if err := d.client.Register(ctx, d.servers.specs...); err != nil {
		return err
	}
	took := time.Since(start)
	for _, spec := range d.servers.specs {
		if err := d.events.await(ctx, spec.Name, mcpvisor.EventReady, 1); err != nil {
			return err
		}
	}
	d.p.printTable(d.client.Status())
	d.p.printLine(dim, "all ready in %s · %d tools · \"search\" of two servers is files/search and legacy/search", roundedDuration(took), len(d.client.Tools()))
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
		if err := backoff.Sleep(ctx, d.pace); err != nil {
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
	res, err := d.client.CallTool(ctx, tool, args)
	took := roundedDuration(time.Since(start))
	server, _, _ := mcpvisor.SplitName(tool)
	var e *mcpvisor.Error
	switch {
	case errors.As(err, &e) && e.RetryAfter > 0:
		d.p.printFact(red, "call", server, "%s ✗ %s · retry in %s · answered in %s", tool, string(e.Kind), roundedDuration(e.RetryAfter), took)
	case errors.As(err, &e):
		d.p.printFact(red, "call", server, "%s ✗ %s · %s", tool, string(e.Kind), e.Hint)
	case err != nil:
		d.p.printFact(red, "call", server, "%s ✗ %v", tool, err)
	case res.IsError:
		d.p.printFact(yellow, "call", server, "%s ! the tool says: %s (a result, not a failed call)", tool, text(res))
	default:
		d.p.printFact(cyan, "call", server, "%s → %s   %s", tool, text(res), took)
	}
	return err
}

func text(res *mcp.CallToolResult) string {
	if len(res.Content) > 0 {
		if c, ok := res.Content[0].(*mcp.TextContent); ok {
			return c.Text
		}
	}
	return "(no text)"
}
