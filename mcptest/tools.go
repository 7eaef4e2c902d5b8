package mcptest

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/mcptest/internal/tools"
)

// DefaultTools returns the tools of a script without Tools, to build upon:
//
//	echo {text}               answers with the text
//	add {a, b}                the sum, as text and as structured content
//	sleep {ms}                answers later, unless cancelled
//	fail {text}               an isError result
//	pid                       {pid, instance, start}: the process and incarnation
//	count {key}               a side effect that is recorded; see Executions
//	crash {code}              exits before answering
//	signal {name}             dies of a signal before answering
//	hang                      never answers
//	env {name}                an environment variable of the server
//	big {bytes}               that many bytes of text
//	stderr {text}             a line on stderr
//	junk {count}              lines on stdout that are not JSON-RPC
//	fork {detached}           a grandchild that holds stdout and stderr
//	add_tool {name}           adds a tool and announces it
//	remove_tool {name}        removes a tool and announces it
//	slow_progress {steps, ms} progress notifications, if the call has a token
//	log {level, text}         a log message, if the client's level admits it
//	touch {uri}               notifications/resources/updated, if subscribed
//	ask {method, params}      a request to the client; returns its answer
//	consult {method, params, rounds} like ask, in the way of the protocol version:
//	                          since 2026-07-28 the answer of the call requests the input,
//	                          rounds times; returns the last input
//
// Over HTTP the tools that need the streams of a process are left out: signal, stderr,
// junk, fork and ask.
func DefaultTools() []ToolDef {
	defs := make([]ToolDef, 0, len(tools.All))
	for _, t := range tools.All {
		def := ToolDef{Name: t.Name, Description: t.Description, InputSchema: json.RawMessage(t.Schema)}
		if t.Annotations != "" {
			def.Annotations = json.RawMessage(t.Annotations)
		}
		defs = append(defs, def)
	}
	return defs
}

// behaviourOf returns what a tool of a script does: what another tool does, a fixed
// answer, or what the default tool of its name does.
func behaviourOf(def ToolDef) tools.Tool {
	if def.As != "" {
		t, _ := tools.Named(def.As) // Validate has checked the name
		return t
	}
	if def.Text != "" || len(def.Structured) > 0 || def.IsError {
		return fixedAnswer(tools.Result{Text: def.Text, Structured: def.Structured, IsError: def.IsError})
	}
	if t, ok := tools.Named(def.Name); ok {
		return t
	}
	return tools.Echo
}

func fixedAnswer(r tools.Result) tools.Tool {
	return tools.Tool{Run: func(*tools.Call) tools.Result { return r }}
}

// callTool handles tools/call on a pair of streams.
func (s *server) callTool(r *request) (result []byte, failure *jsonrpc.Error, answered bool) {
	def, ok := s.catalog.tool(r.params.Name)
	if !ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "tool " + r.params.Name + " is not known"}, false
	}
	a := behaviourOf(def).Run(&tools.Call{
		Context: r.ctx, Tool: def.Name, Arguments: r.params.Arguments, Meta: r.params.Meta, Server: s, Streams: s,
		Modern: r.modern, InputResponses: r.params.Responses, RequestState: r.params.State,
	})
	failure = a.Err
	switch {
	case len(a.InputRequests) > 0:
		r.resultType = "input_required"
	case failure == nil && !a.NoAnswer && r.makesTask(def.Task):
		result, failure = s.makeTask(r, def.Task, a)
		return result, failure, false
	case !r.modern && def.Task != nil && !def.Task.Optional:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "tool " + def.Name + " requires a task"}, false
	}
	return a.Members(), failure, a.NoAnswer
}

// The methods below implement tools.Server and tools.Streams; NotifyUpdated and Log are
// in subscribe.go.

func (s *server) Identity() (instance string, start int) { return s.instance, s.start }

func (s *server) CountExecution(key string) (int, error) { return s.counter.CountExecution(key) }

func (s *server) Progress(c *tools.Call, done, total int) {
	var meta struct {
		Token json.RawMessage `json:"progressToken"`
	}
	if json.Unmarshal(c.Meta, &meta) != nil || len(meta.Token) == 0 {
		return
	}
	s.notify("notifications/progress", tools.JSON(map[string]any{
		"progressToken": meta.Token, "progress": done, "total": total, "message": "step " + strconv.Itoa(done),
	}))
}

func (s *server) AddTool(name, description string) {
	s.catalog.add(ToolDef{Name: name, Description: description})
	s.toolsChanged()
}

func (s *server) RemoveTool(name string) bool {
	removed := s.catalog.remove(name)
	if removed {
		s.toolsChanged()
	}
	return removed
}

func (s *server) Exit(code int) { s.host.exit(s, code) }

func (s *server) Die(signal string) { s.host.die(s, signal) }

func (s *server) WriteStderr(text string) { s.logf("%s", text) }

func (s *server) WriteJunk(count int) { s.writeJunk(count, "") }

// Fork starts a grandchild and records its pid.
func (s *server) Fork(detached bool) (int, error) {
	child, err := s.host.fork(detached)
	if err != nil {
		return 0, err
	}
	return child, s.counter.RecordPID(child)
}

func (s *server) SendRequest(method string, params json.RawMessage) <-chan json.RawMessage {
	id, answer := s.clientRequests.register()
	text := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%s}`, id, tools.JSON(method))
	if len(params) > 0 {
		text = fmt.Appendf(text[:len(text)-1], `,"params":%s}`, params)
	}
	s.out.writeLine(text)
	return answer
}
