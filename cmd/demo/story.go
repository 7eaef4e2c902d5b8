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
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// settings are what the command line says.
type settings struct {
	seed  int64
	storm time.Duration
	pace  time.Duration
}

// story is one run of the demo.
type story struct {
	settings
	p      *painter
	stage  *stage
	events *chronicle
	made   []outcome // calls with a side effect
	v      verdict
}

// longest bounds the whole demo: whatever breaks, it ends.
const longest = 2 * time.Minute

// tell runs the demo and returns the exit code.
func tell(ctx context.Context, p *painter, s settings) int {
	goroutines := runtime.NumGoroutine()
	st, err := newStage()
	if err != nil {
		p.line(red, "FAIL  the stage could not be set: %v", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(st.dir) }()
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	t := &story{settings: s, p: p, stage: st}
	t.events = newChronicle(p, st.client.Watch(context.Background()))
	err = t.acts(ctx)
	t.v.check("the story was told to its end", err)
	t.finish(goroutines)
	return t.v.print(p, s.seed)
}

func (t *story) acts(ctx context.Context) error {
	for _, act := range []func(context.Context) error{t.curtain, t.calls, t.crash, t.breakdown, t.eviction, t.weather} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// curtain starts the three servers.
func (t *story) curtain(ctx context.Context) error {
	t.p.line(bold, "3 MCP servers (this binary, re-executed) · one supervised process each · seed %d", t.seed)
	t.p.line(dim, "every line is measured, and checked at the end")
	t.p.line(plainText, "")
	specs, err := t.stage.specs()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := t.stage.client.Apply(ctx, specs); err != nil {
		return err
	}
	took := time.Since(start)
	for _, spec := range specs {
		if _, err := t.events.await(ctx, spec.Name, mcpvisor.EventReady, 1); err != nil {
			return err
		}
	}
	t.p.table(t.stage.client.Status())
	t.p.line(dim, "all ready in %s · %d tools · two are called \"search\", kept apart as files/search and legacy/search",
		ms(took), len(t.stage.client.Tools()))
	t.p.line(plainText, "")
	return nil
}

// calls shows a result, a mistake, and a tool's own error.
func (t *story) calls(ctx context.Context) error {
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
		if err := t.pause(ctx); err != nil {
			return err
		}
		if err := t.call(ctx, c.tool, c.args); !errors.Is(err, c.want) {
			return fmt.Errorf("%s: %w, want %v", c.tool, err, c.want)
		}
	}
	return nil
}

// call makes one call and prints how it went.
func (t *story) call(ctx context.Context, tool string, args map[string]any) error {
	start := time.Now()
	res, err := t.stage.client.CallTool(ctx, tool, args)
	took := ms(time.Since(start))
	var e *mcpvisor.Error
	switch {
	case errors.As(err, &e) && e.RetryAfter > 0:
		t.p.fact(red, "call", tool, "✗ %s · retry in %s · answered in %s", e.Kind, ms(e.RetryAfter), took)
	case errors.As(err, &e):
		t.p.fact(red, "call", tool, "✗ %s · %s", e.Kind, e.Hint)
	case err != nil:
		t.p.fact(red, "call", tool, "✗ %v", err)
	case res.IsError:
		t.p.fact(yellow, "call", tool, "! the tool says: %s (a result, not a fault)", text(res))
	default:
		t.p.fact(cyan, "call", tool, "→ %s   %s", text(res), took)
	}
	return err
}

func kind(err error) string {
	if e := (*mcpvisor.Error)(nil); errors.As(err, &e) {
		return string(e.Kind)
	}
	return "no error of ours"
}

func text(res *mcp.CallToolResult) string {
	if len(res.Content) > 0 {
		if c, ok := res.Content[0].(*mcp.TextContent); ok {
			return c.Text
		}
	}
	return "(no text)"
}

// crash kills an idle server with calls in flight, and watches it come back.
func (t *story) crash(ctx context.Context) error {
	if err := t.pause(ctx); err != nil {
		return err
	}
	caught := make(chan outcome, 1)
	go func() {
		o := outcome{server: "files", key: "in flight"}
		_, o.err = t.stage.client.CallTool(ctx, "files/slow", map[string]any{"key": o.key})
		caught <- o
	}()
	if err := t.underWay(ctx, "files"); err != nil {
		return err
	}
	if err := t.kill("KILL", "files", "kill -9 %d, while it works on a call"); err != nil {
		return err
	}
	o := <-caught
	t.made = append(t.made, o)
	var e *mcpvisor.Error
	t.v.expect("a call in flight fails as crashed, outcome unknown", errors.Is(o.err, mcpvisor.ErrCrashed) &&
		errors.As(o.err, &e) && e.Outcome == mcpvisor.OutcomeUnknown, "got %v", o.err)
	t.p.fact(red, "call", "files/slow", "✗ %s · its outcome is unknown, and the error says so", kind(o.err))
	if _, err := t.events.await(ctx, "files", mcpvisor.EventRetry, 1); err != nil {
		return err
	}
	err := t.call(ctx, "files/read", nil)
	t.v.expect("a server that is down says so at once", errors.Is(err, mcpvisor.ErrUnavailable), "got %v", err)
	for _, tool := range t.stage.client.Tools() {
		t.v.expect("the tools of a dead server are not listed", tool.Server != "files", "%s is", tool.Name)
	}
	t.v.check("neighbours notice nothing", t.call(ctx, "calc/add", map[string]any{"a": 1, "b": 1}))
	_, err = t.events.await(ctx, "files", mcpvisor.EventReady, 2)
	return err
}

// kill kills a server, and says so first.
func (t *story) kill(verb, server, format string) error {
	return t.stage.kill(server, func(pid int) { t.p.fact(bold, verb, server, format, pid) })
}

// underWay waits until a server is at work on a call with a side effect.
func (t *story) underWay(ctx context.Context, server string) error {
	for len(mcptest.Executions(t.stage.state(server))) == 0 {
		if err := wait(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// breakdown kills the server again; its next two starts fail.
func (t *story) breakdown(ctx context.Context) error {
	if _, err := t.events.await(ctx, "files", mcpvisor.EventStable, 2); err != nil {
		return err
	}
	t.p.fact(dim, "stable", "files", "ready for %v: all %d retries are given back", stableAfter, retries)
	if err := t.kill("BREAK", "files", "kill -9 %d, and its next two starts will exit 1"); err != nil {
		return err
	}
	_, err := t.events.await(ctx, "files", mcpvisor.EventReady, 5)
	return err
}

// eviction kills the server that is not retried.
func (t *story) eviction(ctx context.Context) error {
	if err := t.pause(ctx); err != nil {
		return err
	}
	if err := t.kill("KILL", "legacy", "kill -9 %d; its policy is: no retry"); err != nil {
		return err
	}
	if _, err := t.events.await(ctx, "legacy", mcpvisor.EventEvicted, 1); err != nil {
		return err
	}
	err := t.call(ctx, "legacy/convert", nil)
	t.v.expect("an evicted server says so", errors.Is(err, mcpvisor.ErrEvicted), "got %v", err)
	// The storm begins with full budgets.
	_, err = t.events.await(ctx, "files", mcpvisor.EventStable, 5)
	return err
}

// pause gives the reader time.
func (t *story) pause(ctx context.Context) error { return wait(ctx, t.pace) }

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
