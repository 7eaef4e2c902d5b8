package tools

import (
	"encoding/json"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/internal/backoff"
)

// withArgs decodes the arguments for a tool. Arguments that do not decode are answered
// with -32602.
func withArgs[T any](run func(c *Call, args T) Result) func(c *Call) Result {
	return func(c *Call) Result {
		var args T
		if len(c.Arguments) > 0 {
			if err := json.Unmarshal(c.Arguments, &args); err != nil {
				return Result{Err: &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "arguments of " + c.Tool + ": " + err.Error()}}
			}
		}
		return run(c, args)
	}
}

type (
	textArgs  struct{ Text string }
	nameArgs  struct{ Name string }
	countArgs struct{ Count int }
	noArgs    struct{}
)

func echo(_ *Call, a textArgs) Result { return textResult(a.Text) }

func add(_ *Call, a struct{ A, B float64 }) Result {
	return jsonResult(map[string]float64{"sum": a.A + a.B})
}

func sleep(c *Call, a struct{ MS float64 }) Result {
	if backoff.Sleep(c.Context, time.Duration(a.MS*float64(time.Millisecond))) != nil {
		return Result{NoAnswer: true}
	}
	return textResult("slept")
}

func fail(_ *Call, a textArgs) Result {
	if a.Text == "" {
		a.Text = "failed as asked"
	}
	return errorResult(a.Text)
}

// pid identifies the process and the incarnation that answer.
func pid(c *Call, _ noArgs) Result {
	instance, start := c.Server.Identity()
	return jsonResult(map[string]any{"pid": os.Getpid(), "instance": instance, "start": start})
}

func count(c *Call, a struct{ Key string }) Result {
	n, err := c.Server.CountExecution(a.Key)
	if err != nil {
		return errorResult(err.Error())
	}
	return jsonResult(map[string]any{"key": a.Key, "executions": n})
}

func crash(c *Call, a struct{ Code *int }) Result {
	code := 1
	if a.Code != nil {
		code = *a.Code
	}
	c.Server.Exit(code)
	return Result{NoAnswer: true}
}

func hang(c *Call, _ noArgs) Result {
	<-c.Context.Done()
	return Result{NoAnswer: true}
}

func env(_ *Call, a nameArgs) Result {
	value, ok := os.LookupEnv(a.Name)
	r := jsonResult(map[string]any{"name": a.Name, "value": value, "set": ok})
	r.Text = value
	return r
}

func big(_ *Call, a struct{ Bytes int }) Result {
	return textResult(strings.Repeat("x", max(0, a.Bytes)))
}

func addTool(c *Call, a nameArgs) Result {
	if a.Name == "" {
		return errorResult("add_tool: name is empty; name the tool to add")
	}
	c.Server.AddTool(a.Name, "Added while running.")
	return textResult("added " + a.Name)
}

func removeTool(c *Call, a nameArgs) Result {
	if !c.Server.RemoveTool(a.Name) {
		return errorResult("remove_tool: there is no tool " + a.Name)
	}
	return textResult("removed " + a.Name)
}

// slowProgress reports each step, ms milliseconds apart, if the call has a progress
// token.
func slowProgress(c *Call, a struct {
	Steps int
	MS    float64
}) Result {
	for i := range a.Steps {
		if r := sleep(c, struct{ MS float64 }{a.MS}); r.NoAnswer {
			return r
		}
		c.Server.Progress(c, i+1, a.Steps)
	}
	return jsonResult(map[string]int{"steps": a.Steps})
}

func logMessage(c *Call, a struct{ Level, Text string }) Result {
	if a.Level == "" {
		a.Level = "info"
	}
	c.Server.Log(c, a.Level, a.Text)
	return textResult("sent")
}

func touch(c *Call, a struct{ URI string }) Result {
	c.Server.NotifyUpdated(c, a.URI)
	return textResult("announced")
}
