package mcptest

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/task"
	"github.com/mcpvisor/mcpvisor/mcptest/internal/rawjson"
	"github.com/mcpvisor/mcpvisor/mcptest/internal/tools"
)

// TaskDef makes a tool answer with a task: since 2026-07-28 to each client that declares the
// extension io.modelcontextprotocol/tasks, in 2025-11-25 to calls that ask for one. What the
// tool does, it does when the task is made; the task only takes its time. Not over HTTP.
type TaskDef struct {
	// Takes is how long the task works. Default 0: it has ended when it is asked for first.
	Takes time.Duration `json:"takes,omitempty"`
	// Durable: a later incarnation knows the task, by Script.StateDir or, in memory, by the
	// InMemory that they share. Default: the task ends with its incarnation.
	Durable bool `json:"durable,omitempty"`
	// Poll is how often the server wants to be asked, and TTL how long it keeps the task.
	// Default: it says neither.
	Poll time.Duration `json:"poll,omitempty"`
	TTL  time.Duration `json:"ttl,omitempty"`
	// Input, an object of requests by key, is what the task waits for before it works (since
	// 2026-07-28). Default: nothing.
	Input json.RawMessage `json:"input,omitempty"`
	// Fail ends the task with a JSON-RPC error of this text. Default: it completes.
	Fail string `json:"fail,omitempty"`
	// Optional: in 2025-11-25 the tool may be called without a task. Default: it may not.
	Optional bool `json:"optional,omitempty"`
}

// In JSON a duration is "50ms" instead of nanoseconds. These types shadow the fields.
type (
	taskFields TaskDef
	taskJSON   struct {
		taskFields
		Takes jsonDuration `json:"takes,omitempty"`
		Poll  jsonDuration `json:"poll,omitempty"`
		TTL   jsonDuration `json:"ttl,omitempty"`
	}
)

// MarshalJSON implements [json.Marshaler].
func (t TaskDef) MarshalJSON() ([]byte, error) {
	return json.Marshal(taskJSON{taskFields(t), jsonDuration(t.Takes), jsonDuration(t.Poll), jsonDuration(t.TTL)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (t *TaskDef) UnmarshalJSON(data []byte) error {
	var wire taskJSON
	if err := json.Unmarshal(data, &wire); err != nil {
		return fmt.Errorf("reading a task: %w", err)
	}
	*t = TaskDef(wire.taskFields)
	t.Takes, t.Poll, t.TTL = time.Duration(wire.Takes), time.Duration(wire.Poll), time.Duration(wire.TTL)
	return nil
}

// taskRecord is what the server keeps of a task.
type taskRecord struct {
	ID        string
	Created   time.Time
	Due       time.Time
	Def       TaskDef
	Result    json.RawMessage            // a CallToolResult
	Responses map[string]json.RawMessage // to Def.Input
	Cancelled bool
}

// offersTasks reports whether a tool of the script answers with a task.
func (s *server) offersTasks() bool {
	for _, t := range s.script.Tools {
		if t.Task != nil {
			return true
		}
	}
	return false
}

// makesTask reports whether the call is to be answered with a task.
func (r *request) makesTask(def *TaskDef) bool {
	if def == nil {
		return false
	}
	if r.modern {
		return declaresTasks(r.params.Meta)
	}
	return len(r.params.Task) > 0
}

// declaresTasks reports whether the client declares the extension.
func declaresTasks(meta json.RawMessage) bool {
	var m struct {
		Capabilities struct {
			Extensions map[string]json.RawMessage `json:"extensions"`
		} `json:"io.modelcontextprotocol/clientCapabilities"`
	}
	if json.Unmarshal(meta, &m) != nil {
		return false
	}
	_, declared := m.Capabilities.Extensions[task.Extension]
	return declared
}

// makeTask keeps the result of a call as a task, and returns the members of the answer.
func (s *server) makeTask(r *request, def *TaskDef, result tools.Result) ([]byte, *rpcError) {
	now := time.Now()
	t := &taskRecord{ID: "task-" + newInstance(), Created: now, Due: now.Add(def.Takes), Def: *def,
		Result: json.RawMessage("{" + string(result.Members()) + "}"), Responses: map[string]json.RawMessage{}}
	if err := s.saveTask(t); err != nil {
		return nil, &rpcError{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	}
	r.resultType = "task"
	if r.modern {
		return members(t.fields(now, true)), nil
	}
	return members(map[string]any{"task": t.fields(now, false)}), nil
}

func (s *server) saveTask(t *taskRecord) error {
	text := rawjson.Marshal(t)
	if t.Def.Durable {
		return s.counter.PutTask(t.ID, text)
	}
	s.tasks.Store(t.ID, []byte(text))
	return nil
}

// errNoTask is the error of a request about a task that the server does not know.
var errNoTask = errors.New("Failed to retrieve task: Task not found")

func (s *server) loadTask(id string) (*taskRecord, *rpcError) {
	text := s.counter.Task(id)
	if kept, ok := s.tasks.Load(id); ok {
		text = kept.([]byte)
	}
	t := new(taskRecord)
	if json.Unmarshal(text, t) != nil {
		return nil, &rpcError{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("%v: %s", errNoTask, id)}
	}
	return t, nil
}

// open returns the requests that are not answered yet.
func (t *taskRecord) open() map[string]json.RawMessage {
	open := map[string]json.RawMessage{}
	_ = jsonscan.EachMember(t.Def.Input, func(key string, value []byte) error { // Validate has read it
		if _, answered := t.Responses[key]; !answered {
			open[key] = json.RawMessage(value)
		}
		return nil
	})
	return open
}

func (t *taskRecord) status(now time.Time) task.Status {
	switch {
	case t.Cancelled:
		return task.Cancelled
	case len(t.Def.Input) > 0 && len(t.open()) > 0:
		return task.InputRequired
	case now.Before(t.Due):
		return task.Working
	case t.Def.Fail != "":
		return task.Failed
	}
	return task.Completed
}

// fields are the members of the task, in the words of its era.
func (t *taskRecord) fields(now time.Time, modern bool) map[string]any {
	ttl, poll := "ttl", "pollInterval"
	if modern {
		ttl, poll = "ttlMs", "pollIntervalMs"
	}
	stamp := func(at time.Time) string { return at.UTC().Format(time.RFC3339) }
	status := t.status(now)
	m := map[string]any{"taskId": t.ID, "status": status, "statusMessage": "it is " + string(status), "createdAt": stamp(t.Created), "lastUpdatedAt": stamp(now), ttl: json.RawMessage("null")}
	if t.Def.TTL > 0 {
		m[ttl] = t.Def.TTL.Milliseconds()
	}
	if t.Def.Poll > 0 {
		m[poll] = t.Def.Poll.Milliseconds()
	}
	return m
}

// aboutTask handles the requests about tasks.
func (s *server) aboutTask(r *request) ([]byte, *rpcError) {
	if !s.offersTasks() {
		return nil, unknownMethod(r.method)
	}
	t, failure := s.loadTask(r.params.TaskID)
	if failure != nil {
		return nil, failure
	}
	now := time.Now()
	status := t.status(now)
	switch r.method {
	case "tasks/get":
		m := t.fields(now, r.modern)
		switch {
		case !r.modern:
		case status == task.InputRequired:
			m["inputRequests"] = t.open()
		case status == task.Completed:
			m["result"] = t.Result
		case status == task.Failed:
			m["error"] = rpcError{Code: jsonrpc.CodeInternalError, Message: t.Def.Fail}
		}
		return members(m), nil
	case "tasks/result":
		switch status {
		case task.Completed:
			return t.Result[1 : len(t.Result)-1], nil
		case task.Failed:
			return nil, &rpcError{Code: jsonrpc.CodeInternalError, Message: t.Def.Fail}
		default:
			return nil, &rpcError{Code: jsonrpc.CodeInvalidRequest, Message: "the task has not completed"}
		}
	case "tasks/update":
		_ = jsonscan.EachMember(r.params.Responses, func(key string, value []byte) error { // what is not asked for is ignored
			if _, asked := t.open()[key]; asked {
				t.Responses[key] = json.RawMessage(value)
			}
			return nil
		})
		if len(t.open()) == 0 {
			t.Due = now.Add(t.Def.Takes)
		}
	case "tasks/cancel":
		t.Cancelled = t.Cancelled || !status.Final()
	}
	if err := s.saveTask(t); err != nil {
		return nil, &rpcError{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	}
	if r.method == "tasks/cancel" && !r.modern {
		return members(t.fields(now, false)), nil
	}
	return nil, nil
}
