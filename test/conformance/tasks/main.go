// Command tasks is an MCP server of 2026-07-28 with the tools that the scenarios of the official
// conformance suite about tasks want. It serves stdio, or with an address HTTP: tasks [ADDRESS].
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/test/raw"
)

const (
	extension = "io.modelcontextprotocol/tasks"
	version   = "2026-07-28"
)

// params are those of a request.
type params struct {
	Meta struct {
		Capabilities struct {
			Extensions map[string]any `json:"extensions"`
		} `json:"io.modelcontextprotocol/clientCapabilities"`
	} `json:"_meta"`
	Name      string `json:"name"`
	Arguments struct {
		Name    string  `json:"name"`
		Seconds float64 `json:"seconds"`
	} `json:"arguments"`
	TaskID         string                    `json:"taskId"`
	InputResponses map[string]map[string]any `json:"inputResponses"`
}

func (p *params) declares() bool {
	_, ok := p.Meta.Capabilities.Extensions[extension]
	return ok
}

type object = map[string]any

// failure is an error of JSON-RPC.
type failure struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    object `json:"data,omitempty"`
}

var missing = &failure{-32021, "missing required client capability", object{"requiredCapabilities": object{"extensions": object{extension: object{}}}}}

// job is a task.
type job struct {
	created  time.Time
	takes    time.Duration
	result   object
	failure  *failure
	inputs   object // that are not answered
	resumed  time.Time
	canceled bool
}

func (j *job) status(now time.Time) string {
	began := j.created
	if j.resumed.After(began) {
		began = j.resumed
	}
	switch {
	case j.canceled:
		return "cancelled"
	case len(j.inputs) > 0:
		return "input_required"
	case now.Sub(began) < j.takes:
		return "working"
	case j.failure != nil:
		return "failed"
	}
	return "completed"
}

// server has the tasks.
type server struct {
	mu   sync.Mutex
	jobs map[string]*job
}

func text(s string, isError bool) object {
	r := object{"content": []object{{"type": "text", "text": s}}}
	if isError {
		r["isError"] = true
	}
	return r
}

func question(message string) object {
	return object{"method": "elicitation/create", "params": object{"mode": "form", "message": message,
		"requestedSchema": object{"type": "object", "properties": object{"name": object{"type": "string"}, "confirm": object{"type": "boolean"}}}}}
}

// answer returns the result of a request.
func (s *server) answer(method string, p *params) (object, *failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch method {
	case "server/discover":
		return object{"supportedVersions": []string{version}, "capabilities": object{"tools": object{}, "extensions": object{extension: object{}}},
			"ttlMs": 0, "cacheScope": "private", "_meta": object{"io.modelcontextprotocol/serverInfo": object{"name": "tasks", "version": "1"}}}, nil
	case "tools/list":
		var tools []object
		for _, name := range []string{"greet", "slow_compute", "failing_job", "protocol_error_job", "confirm_delete", "multi_input", "test_tool_with_task"} {
			tools = append(tools, object{"name": name, "inputSchema": object{"type": "object"}})
		}
		return object{"tools": tools, "ttlMs": 0, "cacheScope": "private"}, nil
	case "tools/call":
		return s.call(p)
	case "tasks/get", "tasks/update", "tasks/cancel":
		if !p.declares() {
			return nil, missing
		}
		return s.about(method, p)
	}
	return nil, &failure{Code: -32601, Message: "method not found"}
}

func (s *server) call(p *params) (object, *failure) {
	if p.Name == "greet" {
		return text("Hello, "+p.Arguments.Name+"!", false), nil
	}
	made := &job{created: time.Now()}
	required := false
	switch p.Name {
	case "slow_compute":
		made.takes = time.Duration(p.Arguments.Seconds * float64(time.Second))
		made.result = text("computed", false)
	case "failing_job":
		made.takes, made.result, required = time.Second, text("it has failed", true), true
	case "protocol_error_job":
		made.failure = &failure{Code: -32603, Message: "it has panicked"}
	case "confirm_delete":
		made.result, made.inputs = text("deleted", false), object{"confirm": question("Delete it?")}
	case "multi_input":
		made.result, made.inputs = text("both", false), object{"first": question("First?"), "second": question("Second?")}
	case "test_tool_with_task":
		given, ok := p.InputResponses["user_name"]
		if !ok {
			return object{"resultType": "input_required", "inputRequests": object{"user_name": question("Who?")}, "requestState": "round-1"}, nil
		}
		required = true
		made.result = text(fmt.Sprint("Hello, ", given["content"]), false)
	default:
		return nil, &failure{Code: -32602, Message: "unknown tool"}
	}
	switch {
	case p.declares():
	case required:
		return nil, missing
	default:
		return made.result, nil
	}
	id := fmt.Sprintf("job-of-the-fixture-%d", len(s.jobs)+1)
	s.jobs[id] = made
	state := made.state(id)
	state["resultType"] = "task"
	return state, nil
}

// state are the members that all states have.
func (j *job) state(id string) object {
	stamp := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	return object{"taskId": id, "status": j.status(time.Now()), "createdAt": stamp(j.created), "lastUpdatedAt": stamp(time.Now()), "ttlMs": 600_000, "pollIntervalMs": 100}
}

func (s *server) about(method string, p *params) (object, *failure) {
	id := p.TaskID
	j := s.jobs[id]
	if j == nil {
		return nil, &failure{Code: -32602, Message: "unknown task " + id}
	}
	status := j.status(time.Now())
	switch method {
	case "tasks/get":
		state := j.state(id)
		switch state["status"] {
		case "completed":
			state["result"] = j.result
		case "failed":
			state["error"] = j.failure
		case "input_required":
			state["inputRequests"] = j.inputs
		}
		return state, nil
	case "tasks/update":
		for key := range p.InputResponses {
			delete(j.inputs, key)
		}
		if status == "input_required" && len(j.inputs) == 0 {
			j.resumed = time.Now()
		}
	default:
		j.canceled = j.canceled || status == "working" || status == "input_required"
	}
	return object{}, nil
}

// respond returns the members of the answer to a message.
func (s *server) respond(m *raw.Message) string {
	var p params
	if err := json.Unmarshal(m.Params, &p); m.Params != nil && err != nil {
		return `"error":{"code":-32602,"message":"params of another kind"}`
	}
	if m.ID == nil {
		return raw.None
	}
	var result object
	var failed *failure
	if m.R != nil && !p.areRepeated(m) {
		m.Status, failed = http.StatusBadRequest, &failure{Code: -32020, Message: "the headers do not repeat the body"}
	} else {
		result, failed = s.answer(m.Method, &p)
	}
	switch {
	case failed == nil:
		if result["resultType"] == nil {
			result["resultType"] = "complete"
		}
		return `"result":` + encode(result)
	case failed.Code == -32601:
		m.Status = http.StatusNotFound
	case failed.Code == -32021:
		m.Status = http.StatusBadRequest
	}
	return `"error":` + encode(failed)
}

// areRepeated reports whether the headers of a request repeat its method and its name.
func (p *params) areRepeated(m *raw.Message) bool {
	name := p.Name
	if strings.HasPrefix(m.Method, "tasks/") {
		name = p.TaskID
	}
	return m.R.Header.Get("Mcp-Method") == m.Method && m.R.Header.Get("Mcp-Name") == name
}

func encode(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		log.Fatal(err) // it is text and numbers
	}
	return string(text)
}

func main() {
	s := &server{jobs: map[string]*job{}}
	mcp := &raw.Server{Modern: true, Answer: s.respond}
	if len(os.Args) > 1 {
		log.Fatal((&http.Server{Addr: os.Args[1], Handler: mcp, ReadHeaderTimeout: 10 * time.Second}).ListenAndServe())
	}
	_ = mcp.Serve(context.Background(), os.Stdin, os.Stdout, os.Stderr)
}
