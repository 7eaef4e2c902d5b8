package mcptest

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/task"
	"github.com/mcpvisor/mcpvisor/mcptest/internal/tools"
)

// TaskDef makes a tool answer with a task: since 2026-07-28 to each client that declares the
// extension io.modelcontextprotocol/tasks, in 2025-11-25 to calls that ask for one. The effects
// of the tool happen when the task is created; the task only delays its result. Not over HTTP.
type TaskDef struct {
	// Takes is how long the task works. Default 0: it has ended before the first request for it.
	Takes time.Duration `json:"takes,omitempty"`
	// Durable: a later incarnation knows the task, by Script.StateDir or, in memory, by the
	// InMemory that they share. Default: the task ends with its incarnation.
	Durable bool `json:"durable,omitempty"`
	// Poll is the interval at which the server wants to be asked, and TTL how long it keeps the
	// task. Default: it announces neither.
	Poll time.Duration `json:"poll,omitempty"`
	TTL  time.Duration `json:"ttl,omitempty"`
	// Notify: the server sends a notification when the task changes, since 2026-07-28 to those
	// who listen to it. Default: it has to be asked.
	Notify bool `json:"notify,omitempty"`
	// Input, an object of requests by key, is what the task waits for before it works. In
	// 2025-11-25 the server sends them while tasks/result waits. Default: nothing.
	Input json.RawMessage `json:"input,omitempty"`
	// Fail ends the task with a JSON-RPC error of this text. Default: it completes.
	Fail string `json:"fail,omitempty"`
	// Optional: in 2025-11-25 the tool may be called without a task. Default: it may not.
	Optional bool `json:"optional,omitempty"`
}

type taskFields TaskDef

// taskWire is the definition with its durations as JSON has them.
func taskWire(t *TaskDef) any {
	return &struct {
		*taskFields
		Takes *jsonDuration `json:"takes,omitzero"`
		Poll  *jsonDuration `json:"poll,omitzero"`
		TTL   *jsonDuration `json:"ttl,omitzero"`
	}{(*taskFields)(t), (*jsonDuration)(&t.Takes), (*jsonDuration)(&t.Poll), (*jsonDuration)(&t.TTL)}
}

// MarshalJSON implements [json.Marshaler].
func (t TaskDef) MarshalJSON() ([]byte, error) { return json.Marshal(taskWire(&t)) }

// UnmarshalJSON implements [json.Unmarshaler].
func (t *TaskDef) UnmarshalJSON(data []byte) error {
	var read TaskDef
	if err := json.Unmarshal(data, taskWire(&read)); err != nil {
		return fmt.Errorf("reading a task: %w", err)
	}
	*t = read
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
	return slices.ContainsFunc(s.script.Tools, func(t ToolDef) bool { return t.Task != nil })
}

// makesTask reports whether the call is to be answered with a task.
func (r *request) makesTask(def *TaskDef) bool {
	return def != nil && (r.modern && declaresTasks(r.params.Meta) || !r.modern && len(r.params.Task) > 0)
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
func (s *server) makeTask(r *request, def *TaskDef, result tools.Result) ([]byte, *jsonrpc.Error) {
	now := time.Now()
	t := &taskRecord{ID: "task-" + rand.Text(), Created: now, Due: now.Add(def.Takes), Def: *def,
		Result: json.RawMessage("{" + string(result.Members()) + "}"), Responses: map[string]json.RawMessage{}}
	if err := s.saveTask(t); err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	}
	if r.resultType = "task"; def.Notify && !r.modern {
		s.announceEnd(t)
	}
	if r.modern {
		return members(t.fields(now, true)), nil
	}
	return members(map[string]any{"task": t.fields(now, false)}), nil
}

func (s *server) saveTask(t *taskRecord) error {
	text := tools.JSON(t)
	if t.Def.Durable {
		return s.counter.PutTask(t.ID, text)
	}
	s.tasks.Store(t.ID, []byte(text))
	return nil
}

// errNoTask is the error of a request about a task that the server does not know.
var errNoTask = errors.New("Failed to retrieve task: Task not found")

func (s *server) loadTask(id string) (*taskRecord, *jsonrpc.Error) {
	text := s.counter.Task(id)
	if kept, ok := s.tasks.Load(id); ok {
		text = kept.([]byte)
	}
	t := new(taskRecord)
	if json.Unmarshal(text, t) != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("%v: %s", errNoTask, id)}
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
func (s *server) aboutTask(r *request) ([]byte, *jsonrpc.Error) {
	if !s.offersTasks() {
		return nil, unknownMethod(r.method)
	}
	switch r.method {
	case "tasks/get":
		t, failure := s.loadTask(r.params.TaskID)
		if failure != nil {
			return nil, failure
		}
		return members(t.detailed(time.Now(), r.modern)), nil
	case "tasks/result":
		return s.taskResult(r)
	case "tasks/update":
		_, failure := s.changeTask(r.params.TaskID, func(t *taskRecord) { t.take(r.params.Responses) })
		return nil, failure
	}
	t, failure := s.changeTask(r.params.TaskID, func(t *taskRecord) {
		t.Cancelled = t.Cancelled || !t.status(time.Now()).Final()
	})
	if failure != nil || r.modern {
		return nil, failure
	}
	return members(t.fields(time.Now(), false)), nil
}

// detailed are the members of the answer to tasks/get.
func (t *taskRecord) detailed(now time.Time, modern bool) map[string]any {
	m := t.fields(now, modern)
	switch status := t.status(now); {
	case !modern:
	case status == task.InputRequired:
		m["inputRequests"] = t.open()
	case status == task.Completed:
		m["result"] = t.Result
	case status == task.Failed:
		m["error"] = jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: t.Def.Fail}
	}
	return m
}

// take keeps the responses to what the task asks for, and ignores others. The work begins when
// nothing is missing.
func (t *taskRecord) take(responses json.RawMessage) {
	if len(t.open()) == 0 {
		return
	}
	_ = jsonscan.EachMember(responses, func(key string, value []byte) error {
		if _, asked := t.open()[key]; asked {
			t.Responses[key] = json.RawMessage(value)
		}
		return nil
	})
	if len(t.open()) == 0 {
		t.Due = time.Now().Add(t.Def.Takes)
	}
}

// changeTask changes a task, and tells those who want to hear of it.
func (s *server) changeTask(id string, change func(*taskRecord)) (*taskRecord, *jsonrpc.Error) {
	s.taskMu.Lock()
	defer s.taskMu.Unlock()
	t, failure := s.loadTask(id)
	if failure != nil {
		return nil, failure
	}
	before := t.status(time.Now())
	change(t)
	if err := s.saveTask(t); err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	}
	if now := t.status(time.Now()); t.Def.Notify && now != before {
		s.announceTask(t)
		s.announceEnd(t)
	}
	return t, nil
}

// taskResult waits until the task has ended, and returns its result (2025-11-25). Meanwhile it
// sends what the task asks for; an error is no answer.
func (s *server) taskResult(r *request) ([]byte, *jsonrpc.Error) {
	for {
		t, failure := s.loadTask(r.params.TaskID)
		if failure != nil {
			return nil, failure
		}
		switch t.status(time.Now()) {
		case task.Completed:
			return t.Result[1 : len(t.Result)-1], nil
		case task.Failed:
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: t.Def.Fail}
		case task.InputRequired:
			for key, request := range t.open() {
				select {
				case response := <-s.SendRequest(relatedRequest(t.ID, request)):
					var failure jsonrpc.Error
					if json.Unmarshal(response, &failure) == nil && failure.Code != 0 { // it is asked again
						return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client did not answer: " + failure.Message}
					}
					text := tools.JSON(map[string]json.RawMessage{key: response})
					if _, failure := s.changeTask(t.ID, func(t *taskRecord) { t.take(text) }); failure != nil {
						return nil, failure
					}
				case <-r.ctx.Done():
					return nil, nil
				}
			}
		case task.Working:
			if !s.pause(r.ctx, time.Until(t.Due)) {
				return nil, nil
			}
		case task.Cancelled:
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the task was cancelled"}
		}
	}
}

// relatedRequest returns a request that a task makes in 2025-11-25.
func relatedRequest(id string, request json.RawMessage) (method string, params json.RawMessage) {
	var r struct {
		Method string
		Params map[string]json.RawMessage
	}
	_ = json.Unmarshal(request, &r) // what is left out shows in the answer
	if r.Params == nil {
		r.Params = map[string]json.RawMessage{}
	}
	r.Params["_meta"] = tools.JSON(map[string]any{"io.modelcontextprotocol/related-task": map[string]string{"taskId": id}})
	return r.Method, tools.JSON(r.Params)
}

// watchTasks returns those of the tasks of whose changes the server sends notifications.
func (s *server) watchTasks(ids []string) (watched []string) {
	for _, id := range ids {
		if t, failure := s.loadTask(id); failure == nil && t.Def.Notify {
			watched = append(watched, id)
			s.announceEnd(t)
		}
	}
	return watched
}

// announceEnd has the end of a task announced that works.
func (s *server) announceEnd(t *taskRecord) {
	if t.status(time.Now()) != task.Working {
		return
	}
	s.running.Go(func() {
		if s.pause(s.ctx, time.Until(t.Due)) {
			if now, failure := s.loadTask(t.ID); failure == nil {
				s.announceTask(now)
			}
		}
	})
}

// announceTask sends the state of a task.
func (s *server) announceTask(t *taskRecord) {
	if s.session.initialized() {
		s.notify("notifications/tasks/status", tools.JSON(t.fields(time.Now(), false)))
		return
	}
	s.notifyChanged("notifications/tasks", func(w listenFilter) bool { return slices.Contains(w.TaskIDs, t.ID) }, t.detailed(time.Now(), true))
}
