package mcptest

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"

	"github.com/mcpvisor/mcpvisor/mcptest/internal/statedir"
)

// toolCall is one call of a tool, over any transport.
type toolCall struct {
	// ctx ends when the caller cancels, or the server does.
	ctx  context.Context
	tool ToolDef
	args json.RawMessage
	meta json.RawMessage
	on   backend
	// lines is the server on a pair of streams; nil over HTTP.
	lines *server
	// modern is whether the call is one of 2026-07-28; for lines only.
	modern bool
	// responses and state are what the client repeats a call with that wanted
	// input.
	responses json.RawMessage
	state     string
}

// backend is the server that a tool runs in, over either transport.
type backend interface {
	identity() (instance string, start int)
	stateCounter() *statedir.Counter
	progress(c *toolCall, done, total int)
	// log sends a log message, if the client wants it.
	log(c *toolCall, level, text string)
	// notifyUpdated sends notifications/resources/updated if the client subscribed.
	notifyUpdated(c *toolCall, uri string)
	addTool(t ToolDef)
	removeTool(name string) bool
	crash(code int)
}

// toolResult is the result of a call.
type toolResult struct {
	text       string
	structured json.RawMessage
	isError    bool
	failure    *rpcError
	// silent: the call is not answered.
	silent bool
	// wants holds the input requests of an answer that asks for input, together with
	// state.
	wants json.RawMessage
	state string
}

func textResult(text string) toolResult { return toolResult{text: text} }

// showing answers with a value, as structured content and as text.
func jsonResult(v any) toolResult {
	data := mustJSON(v)
	return toolResult{text: string(data), structured: data}
}

func errorResult(text string) toolResult { return toolResult{text: text, isError: true} }

// behaviour is a default tool.
type behaviour struct {
	about  string
	schema string
	hints  string
	// waits: it may block, so it runs in a goroutine of its own.
	waits bool
	// linesOnly: it needs a pair of streams.
	linesOnly bool
	do        func(c *toolCall) toolResult
}

// behaviourOf resolves how a tool behaves: as another, by a fixed answer, or
// as the default tool of its name.
func behaviourOf(t ToolDef) behaviour {
	if t.As != "" {
		return behaviours[t.As]
	}
	if t.Text != "" || len(t.Structured) > 0 || t.IsError {
		return behaviour{do: func(c *toolCall) toolResult {
			return toolResult{text: c.tool.Text, structured: c.tool.Structured, isError: c.tool.IsError}
		}}
	}
	if b, ok := behaviours[t.Name]; ok {
		return b
	}
	return behaviour{do: func(c *toolCall) toolResult { return textResult(string(c.args)) }}
}

// withArgs decodes the arguments for a tool; arguments that do not fit are
// answered with -32602.
func withArgs[T any](do func(c *toolCall, args T) toolResult) func(c *toolCall) toolResult {
	return func(c *toolCall) toolResult {
		var args T
		if len(c.args) > 0 {
			if err := json.Unmarshal(c.args, &args); err != nil {
				return toolResult{failure: &rpcError{Code: jsonrpc.CodeInvalidParams, Message: "arguments of " + c.tool.Name + ": " + err.Error()}}
			}
		}
		return do(c, args)
	}
}

type (
	textArgs  struct{ Text string }
	nameArgs  struct{ Name string }
	countArgs struct{ Count int }
	none      struct{}
)

// echo has a fast path for plain text, because benchmarks call it.
func echo(c *toolCall) toolResult {
	if len(c.args) > 0 && c.args[0] == '{' {
		text, plain := "", false
		_ = jsonscan.EachMember(c.args, func(key string, value []byte) error {
			if key == "text" {
				text, plain = unescapedText(value)
			}
			return nil
		})
		if plain {
			return textResult(text)
		}
	}
	return withArgs(func(_ *toolCall, a textArgs) toolResult { return textResult(a.Text) })(c)
}

func add(_ *toolCall, a struct{ A, B float64 }) toolResult {
	return jsonResult(map[string]float64{"sum": a.A + a.B})
}

func sleep(c *toolCall, a struct{ MS float64 }) toolResult {
	timer := time.NewTimer(time.Duration(a.MS * float64(time.Millisecond)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return textResult("slept")
	case <-c.ctx.Done():
		return toolResult{silent: true}
	}
}

func fail(_ *toolCall, a textArgs) toolResult {
	return errorResult(orDefault(a.Text, "failed as asked"))
}

// pid identifies the process and the incarnation that answered.
func pid(c *toolCall, _ none) toolResult {
	instance, start := c.on.identity()
	return jsonResult(map[string]any{"pid": os.Getpid(), "instance": instance, "start": start})
}

func count(c *toolCall, a struct{ Key string }) toolResult {
	n, err := c.on.stateCounter().CountExecution(a.Key)
	if err != nil {
		return errorResult(err.Error())
	}
	return jsonResult(map[string]any{"key": a.Key, "executions": n})
}

func crash(c *toolCall, a struct{ Code *int }) toolResult {
	code := 1
	if a.Code != nil {
		code = *a.Code
	}
	c.on.crash(code)
	return toolResult{silent: true}
}

func hang(c *toolCall, _ none) toolResult {
	<-c.ctx.Done()
	return toolResult{silent: true}
}

func env(_ *toolCall, a nameArgs) toolResult {
	value, ok := os.LookupEnv(a.Name)
	answer := jsonResult(map[string]any{"name": a.Name, "value": value, "set": ok})
	answer.text = value
	return answer
}

func big(_ *toolCall, a struct{ Bytes int }) toolResult {
	return textResult(strings.Repeat("x", max(0, a.Bytes)))
}

func addTool(c *toolCall, a nameArgs) toolResult {
	if a.Name == "" {
		return errorResult("add_tool: name is empty; name the tool to add")
	}
	c.on.addTool(ToolDef{Name: a.Name, Description: "Added while running."})
	return textResult("added " + a.Name)
}

func removeTool(c *toolCall, a nameArgs) toolResult {
	if !c.on.removeTool(a.Name) {
		return errorResult("remove_tool: there is no tool " + a.Name)
	}
	return textResult("removed " + a.Name)
}

// slowProgress reports each step, ms apart, if the caller gave a token.
func slowProgress(c *toolCall, a struct {
	Steps int
	MS    float64
}) toolResult {
	for i := range a.Steps {
		if answer := sleep(c, struct{ MS float64 }{a.MS}); answer.silent {
			return answer
		}
		c.on.progress(c, i+1, a.Steps)
	}
	return jsonResult(map[string]int{"steps": a.Steps})
}

// callTool handles tools/call on a pair of streams.
func (s *server) callTool(r *request) (result []byte, failure *rpcError, answered bool) {
	tool, ok := s.catalog.tool(r.params.Name)
	if !ok {
		return nil, &rpcError{Code: jsonrpc.CodeInvalidParams, Message: "tool " + r.params.Name + " is not known"}, false
	}
	a := behaviourOf(tool).do(&toolCall{
		ctx: r.ctx, tool: tool, args: r.params.Arguments, meta: r.params.Meta, on: s, lines: s,
		modern: r.modern, responses: r.params.Responses, state: r.params.State,
	})
	if r.unfinished = len(a.wants) > 0; r.unfinished {
		return a.wanting(), nil, false
	}
	return a.members(), a.failure, a.silent
}

// members returns the members of a CallToolResult.
func (a toolResult) members() []byte {
	b := make([]byte, 0, len(a.text)+len(a.structured)+96)
	b = append(b, `"content":[{"type":"text","text":`...)
	b = append(b, quote(a.text)...)
	b = append(b, `}]`...)
	if len(a.structured) > 0 {
		b = append(append(b, `,"structuredContent":`...), a.structured...)
	}
	if a.isError {
		b = append(b, `,"isError":true`...)
	}
	return b
}
