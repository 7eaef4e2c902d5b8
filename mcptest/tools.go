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

// toolCall is one call of a tool, over whichever transport.
type toolCall struct {
	// ctx ends when the caller cancels, or the server does.
	ctx  context.Context
	tool ToolDef
	args json.RawMessage
	meta json.RawMessage
	on   stand
	// lines is the server on a pair of streams; nil over HTTP.
	lines *server
	// modern is whether the call is one of 2026-07-28; for lines only.
	modern bool
	// responses and state are what the client repeats a call with that wanted
	// input.
	responses json.RawMessage
	state     string
}

// stand is what a tool can reach of the server that it runs in.
type stand interface {
	identity() (instance string, start int)
	stateCounter() *statedir.Counter
	progress(c *toolCall, done, total int)
	// log sends a log message, if the client wants it.
	log(c *toolCall, level, text string)
	// touched announces that a resource changed, to those who want to know.
	touched(c *toolCall, uri string)
	addTool(t ToolDef)
	removeTool(name string) bool
	crash(code int)
}

// toolAnswer is what a tool says.
type toolAnswer struct {
	text       string
	structured json.RawMessage
	isError    bool
	failure    *rpcError
	// silent: the call is not answered.
	silent bool
	// wants is the input requests of an answer that asks for input; with state.
	wants json.RawMessage
	state string
}

func saying(text string) toolAnswer { return toolAnswer{text: text} }

// showing answers with a value, as structured content and as text.
func showing(v any) toolAnswer {
	data := mustJSON(v)
	return toolAnswer{text: string(data), structured: data}
}

func failing(text string) toolAnswer { return toolAnswer{text: text, isError: true} }

// behaviour is what a default tool does.
type behaviour struct {
	about  string
	schema string
	hints  string
	// waits is whether it takes its time, so runs in a goroutine of its own.
	waits bool
	// linesOnly is whether it needs a pair of streams.
	linesOnly bool
	do        func(c *toolCall) toolAnswer
}

// behaviourOf resolves how a tool behaves: as another, by a fixed answer, or
// as the default tool of its name.
func behaviourOf(t ToolDef) behaviour {
	if t.As != "" {
		return behaviours[t.As]
	}
	if t.Text != "" || len(t.Structured) > 0 || t.IsError {
		return behaviour{do: func(c *toolCall) toolAnswer {
			return toolAnswer{text: c.tool.Text, structured: c.tool.Structured, isError: c.tool.IsError}
		}}
	}
	if b, ok := behaviours[t.Name]; ok {
		return b
	}
	return behaviour{do: func(c *toolCall) toolAnswer { return saying(string(c.args)) }}
}

// taking decodes the arguments for a tool; arguments that do not fit are
// answered with -32602.
func taking[T any](do func(c *toolCall, args T) toolAnswer) func(c *toolCall) toolAnswer {
	return func(c *toolCall) toolAnswer {
		var args T
		if len(c.args) > 0 {
			if err := json.Unmarshal(c.args, &args); err != nil {
				return toolAnswer{failure: &rpcError{Code: jsonrpc.CodeInvalidParams, Message: "arguments of " + c.tool.Name + ": " + err.Error()}}
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

// echo has a short way for plain text, for it is what benchmarks call.
func echo(c *toolCall) toolAnswer {
	if len(c.args) > 0 && c.args[0] == '{' {
		text, plain := "", false
		_ = jsonscan.EachMember(c.args, func(key string, value []byte) error {
			if key == "text" {
				text, plain = plainText(value)
			}
			return nil
		})
		if plain {
			return saying(text)
		}
	}
	return taking(func(_ *toolCall, a textArgs) toolAnswer { return saying(a.Text) })(c)
}

func add(_ *toolCall, a struct{ A, B float64 }) toolAnswer {
	return showing(map[string]float64{"sum": a.A + a.B})
}

func sleep(c *toolCall, a struct{ MS float64 }) toolAnswer {
	timer := time.NewTimer(time.Duration(a.MS * float64(time.Millisecond)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return saying("slept")
	case <-c.ctx.Done():
		return toolAnswer{silent: true}
	}
}

func fail(_ *toolCall, a textArgs) toolAnswer { return failing(orDefault(a.Text, "failed as asked")) }

// pid tells processes and incarnations apart.
func pid(c *toolCall, _ none) toolAnswer {
	instance, start := c.on.identity()
	return showing(map[string]any{"pid": os.Getpid(), "instance": instance, "start": start})
}

func count(c *toolCall, a struct{ Key string }) toolAnswer {
	n, err := c.on.stateCounter().CountExecution(a.Key)
	if err != nil {
		return failing(err.Error())
	}
	return showing(map[string]any{"key": a.Key, "executions": n})
}

func crash(c *toolCall, a struct{ Code *int }) toolAnswer {
	code := 1
	if a.Code != nil {
		code = *a.Code
	}
	c.on.crash(code)
	return toolAnswer{silent: true}
}

func hang(c *toolCall, _ none) toolAnswer {
	<-c.ctx.Done()
	return toolAnswer{silent: true}
}

func env(_ *toolCall, a nameArgs) toolAnswer {
	value, ok := os.LookupEnv(a.Name)
	answer := showing(map[string]any{"name": a.Name, "value": value, "set": ok})
	answer.text = value
	return answer
}

func big(_ *toolCall, a struct{ Bytes int }) toolAnswer {
	return saying(strings.Repeat("x", max(0, a.Bytes)))
}

func addTool(c *toolCall, a nameArgs) toolAnswer {
	if a.Name == "" {
		return failing("add_tool: name is empty; name the tool to add")
	}
	c.on.addTool(ToolDef{Name: a.Name, Description: "Added while running."})
	return saying("added " + a.Name)
}

func removeTool(c *toolCall, a nameArgs) toolAnswer {
	if !c.on.removeTool(a.Name) {
		return failing("remove_tool: there is no tool " + a.Name)
	}
	return saying("removed " + a.Name)
}

// slowProgress reports each step, ms apart, if the caller gave a token.
func slowProgress(c *toolCall, a struct {
	Steps int
	MS    float64
}) toolAnswer {
	for i := range a.Steps {
		if answer := sleep(c, struct{ MS float64 }{a.MS}); answer.silent {
			return answer
		}
		c.on.progress(c, i+1, a.Steps)
	}
	return showing(map[string]int{"steps": a.Steps})
}

// callTool carries out tools/call on a pair of streams.
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

// members is the answer as the members of a CallToolResult.
func (a toolAnswer) members() []byte {
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
