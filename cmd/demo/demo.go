package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
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
	*story
	servers     *servers
	sideEffects []callRecord // calls before the storm that count executions
}

// maxDuration bounds the steps of the demo, whatever breaks, and closeTimeout its end.
const (
	maxDuration  = 2 * time.Minute
	closeTimeout = 20 * time.Second
)

// run runs the demo and returns the exit code.
func run(ctx context.Context, p *printer, s settings) int {
	st, err := newStory(p)
	if err != nil {
		p.printLine(red, "FAIL  %v", err)
		return 1
	}
	d := &demo{settings: s, story: st}
	if d.servers, err = newServers(); err != nil {
		return d.refuse("the servers could not be prepared: %v", err)
	}
	defer func() { _ = os.RemoveAll(d.servers.dir) }()
	url, endPage := "", func() error { return nil }
	if s.http != "" {
		if url, endPage, err = servePage(d.client, s.http); err != nil {
			d.servers.close()
			return d.refuse("the page cannot be served: %v", err)
		}
		p.printLine(bold, "page  %s", url)
	}
	err = d.runSteps(ctx)
	d.check("the demo ran to its end", err)
	if url != "" {
		if err == nil {
			p.printLine(bold, "the servers and the page %s stay until you press Ctrl-C", url)
			<-ctx.Done()
		}
		d.check("the page ends", endPage())
	}
	return d.finish()
}

// refuse closes the client before it has servers.
func (d *demo) refuse(format string, err error) int {
	d.p.printLine(red, "FAIL  "+format, err)
	_ = d.client.Close(context.Background())
	<-d.events.done
	return 1
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

// finish checks what holds at the end, and ends the demo.
func (d *demo) finish() int {
	status, tools := d.client.Status(), d.client.Tools()
	d.p.printTable(status)
	events := d.events.all()
	d.check("the registry shows the live sessions and nothing else", checkListing(status, tools))
	d.check("the delays are exactly 500ms, 1s, 2s", checkDelays(events))
	missed := slices.ContainsFunc(events, func(ev mcpvisor.Event) bool { return ev.Kind == mcpvisor.EventMissed })
	d.expect("the watcher missed nothing", !missed, "it missed events")
	code := d.end(ending{bound: closeTimeout, processes: d.servers.close, least: len(serverNames), pass: "every call answered exactly once · every delay exact"})
	if code == 0 {
		d.p.printLine(dim, "next  go run ./cmd/demo --config .mcp.json      the same with your own servers")
	} else {
		d.p.printLine(dim, "again go run ./cmd/demo --seed %d", d.seed)
	}
	return code
}

// startServers starts the servers.
func (d *demo) startServers(ctx context.Context) error {
	d.p.printLine(bold, "6 MCP servers: 5 processes (this binary, executed again), one over HTTP · seed %d", d.seed)
	d.p.printLine(dim, "every line is measured, and checked at the end")
	d.p.printLine(plainText, "")
	specs := d.servers.specs()
	start := time.Now()
	if err := d.client.Register(ctx, specs...); err != nil {
		return err
	}
	took := time.Since(start)
	for _, spec := range specs {
		if err := d.await(ctx, spec.Name, mcpvisor.EventReady, 1); err != nil {
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
	res, err := d.client.CallTool(ctx, tool, args)
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

func text(res *mcp.CallToolResult) string {
	if len(res.Content) > 0 {
		if c, ok := res.Content[0].(*mcp.TextContent); ok {
			return c.Text
		}
	}
	return "(no text)"
}

// pause waits between steps, so that the output can be read.
func (d *demo) pause(ctx context.Context) error { return backoff.Sleep(ctx, d.pace) }
