//go:build linux

package integration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// record is one call and its result.
type record struct {
	server, tool string
	// key is unique to the call. The tool count records it, and echo answers with it.
	key          string
	began, ended time.Time
	// bound is the longest time that the call may take according to its timeout or
	// context.
	bound      time.Duration
	text       string
	answeredBy identity // set for the tool pid
	err        error
}

// failure returns the error as an *mcpvisor.Error, or nil.
func (r *record) failure() *mcpvisor.Error {
	var e *mcpvisor.Error
	errors.As(r.err, &e)
	return e
}

func (r *record) String() string {
	return fmt.Sprintf("%s/%s %s (%v): %q, %v", r.server, r.tool, r.key, r.ended.Sub(r.began), r.text, r.err)
}

// callLog records calls, those in flight and those that have returned. Safe for
// concurrent use.
type callLog struct {
	mu      sync.Mutex
	keys    int
	open    map[string]*record
	records []*record
}

func newCallLog() *callLog { return &callLog{open: map[string]*record{}} }

// startRecord records that a call begins.
func (l *callLog) startRecord(server, tool string, bound time.Duration) *record {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys++
	r := &record{server: server, tool: tool, key: fmt.Sprintf("key-%d", l.keys), bound: bound}
	l.open[r.key] = r
	r.began = time.Now()
	return r
}

// endRecord records what the call returned.
func (l *callLog) endRecord(r *record, text string, err error) {
	r.ended = time.Now()
	r.text, r.err = text, err
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, r.key)
	l.records = append(l.records, r)
}

// call makes one call and records it. The tool decides which arguments the call has.
func (l *callLog) call(ctx context.Context, c *facade.Client, server, tool string, bound time.Duration, opts ...facade.CallOption) *record {
	r := l.startRecord(server, tool, bound)
	var res *mcp.CallToolResult
	var err error
	text := ""
	switch tool {
	case "read":
		var doc *mcp.ReadResourceResult
		if doc, err = c.ReadResource(ctx, server, "mcptest://echo/"+r.key, opts...); err == nil && len(doc.Contents) == 1 {
			text = doc.Contents[0].Text
		}
	case "prompt":
		var p *mcp.GetPromptResult
		if p, err = c.GetPrompt(ctx, server+"/greet", map[string]string{"name": r.key}, opts...); err == nil && len(p.Messages) == 1 {
			text = p.Messages[0].Content.(*mcp.TextContent).Text
		}
	case "consult":
		res, err = c.CallTool(ctx, server+"/consult", consultArgs(server, r.key), opts...)
		text = consultedKey(textOf(res))
	case "slow_progress":
		var seen []float64
		opts = append(opts, facade.WithProgress(func(p mcpvisor.Progress) { seen = append(seen, p.Progress) }))
		_, err = c.CallTool(ctx, server+"/slow_progress", map[string]any{"steps": steps, "ms": 1}, opts...)
		text = fmt.Sprint(seen)
	case "add_tool", "remove_tool":
		_, err = c.CallTool(ctx, server+"/"+tool, map[string]any{"name": addedTool}, opts...)
	case "touch":
		_, err = c.CallTool(ctx, server+"/touch", map[string]any{"uri": resourceURI}, opts...)
	case "log":
		_, err = c.CallTool(ctx, server+"/log", map[string]any{"text": r.key}, opts...)
	default:
		res, err = c.CallTool(ctx, server+"/"+tool, map[string]any{"text": r.key, "key": r.key, "ms": 20}, opts...)
		text = textOf(res)
	}
	if tool == "pid" && err == nil {
		r.answeredBy, err = identityOf(res)
	}
	l.endRecord(r, text, err)
	return r
}

// all returns the calls that have returned, and the number of those that have not.
func (l *callLog) all() (records []*record, open int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*record(nil), l.records...), len(l.open)
}
