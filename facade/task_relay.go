package facade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/task"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// A host that calls for its own clients, such as a gateway, hands the task that a server makes of a call
// to its own client, which asks for it as often as it wants. All that the host has to keep is the
// names of server and task.

// TaskRelay hands the task of one call to the caller; see [WithTaskRelay].
type TaskRelay struct {
	// TTL is how long a server of 2025-11-25 is asked to keep the task. Default, and for 0 or less:
	// as long as the server wants.
	TTL time.Duration

	// Server and ID name the task that the server has made of the call, for [Client.TaskOf]; Origin says
	// which of the tasks with that name it is, for [WithTaskOrigin], and Modern that it is one of the
	// extension since 2026-07-28. They are set when the call returns; ID is empty if the server has made
	// no task.
	Server, ID, Origin string
	Modern             bool
}

// WithTaskRelay makes the call return a task that the server makes of it as the server has sent it,
// instead of following it. t must not be shared with another call. The call asks a server of
// 2025-11-25 for a task if its tool accepts that. The client does not follow the task; use [Client.TaskOf].
//
// It is for CallToolRaw. Error of the call: ErrInvalid (with WithKey or StartTask); nothing was sent.
func WithTaskRelay(t *TaskRelay) CallOption { return func(o *callOptions) { o.TaskRelay = t } }

// WithoutTasks makes a server since 2026-07-28 answer the call itself: it is not told that the call
// may become a task. A server that cannot do without answers with the JSON-RPC error -32021. It
// changes nothing for earlier servers, nor for a call whose WithMeta has the clientCapabilities.
func WithoutTasks() CallOption { return func(o *callOptions) { o.WithoutTasks = true } }

// errTaskRelayOnly is the cause of a call whose task two would follow.
var errTaskRelayOnly = errors.New("WithTaskRelay hands the task to the caller, so it cannot be combined with WithKey or StartTask")

// take notes which task the server has made of the call.
func (t *TaskRelay) take(v *actors.View, result json.RawMessage) error {
	made, err := task.Read(result)
	if err != nil {
		return unreadableTask(err)
	}
	if v.HoldTask(&made, true) == nil {
		return unreadableTask(errTaskTwice)
	}
	t.Server, t.ID, t.Modern = v.Name, strings.Clone(made.ID), v.Modern()
	t.Origin = taskOrigin{v.Incarnation(), made.Created, targetOf(v.Spec)}.String()
	return nil
}

// WithTaskOrigin is for TaskOf: the task is the one with that TaskRelay.Origin, and not another one to
// which the next incarnation of the server, or another server of the name, gives the same id. Default:
// whatever task has the id.
func WithTaskOrigin(origin string) CallOption {
	return func(o *callOptions) { o.taskOrigin = readTaskOrigin(origin) }
}

// TaskOf returns a handle on a task that a server has made of an earlier call, of this host or of
// another one; see [WithTaskRelay]. Nothing is sent. [Client.Tasks] lists the task while Wait runs.
//
// Errors: ErrUnknownServer (also if another server has the name now), ErrInvalid (there is no id, or it
// is longer than 1,024 bytes).
func (c *Client) TaskOf(server, id string, opts ...CallOption) (*Task, error) {
	s := c.rt.Snapshot()
	v := s.Server(server)
	switch {
	case v == nil:
		return nil, withOp(unknownServer(s, server), "find a task")
	case id == "" || len(id) > task.MaxID:
		return nil, withOp(invalidRequest(fmt.Errorf("the id of a task has 1 to %d bytes", task.MaxID)), "find a task")
	}
	o := c.callOptions(opts)
	o.detached = true
	now := time.Now()
	t := &Task{c: c, tool: server, turn: make(chan struct{}, 1), resumed: true}
	t.follow = &follower{c: c, o: o, server: server, began: now, since: now, answered: now, view: v, resumed: true, origin: o.taskOrigin}
	if err := t.follow.checkTarget(v); err != nil {
		return nil, withOp(err, "find a task")
	}
	t.follow.note(task.Task{ID: id, Status: task.Working}, now)
	t.turn <- struct{}{}
	return t, nil
}

// TaskAnswer is an answer of a server about a task.
type TaskAnswer struct {
	// JSON is the answer to tasks/get as the server has sent it. Do not modify it.
	JSON json.RawMessage
	// State is "working", "input_required", "completed", "failed" or "cancelled".
	State string
	// Modern: it is a task of the extension since 2026-07-28, and JSON has what came of it. What
	// came of one of 2025-11-25, Wait returns.
	Modern bool
}

// Ended reports whether the task has ended.
func (a TaskAnswer) Ended() bool { return task.Status(a.State).Final() }

// Ask asks the current incarnation of the server for the task, once.
//
// Errors: ErrRPC (with -32602 the server does not know the task, or has another one with its id), ErrUnavailable and the other errors
// of a request.
func (t *Task) Ask(ctx context.Context) (answer TaskAnswer, err error) {
	err = t.hold(ctx, "ask for a task of "+t.tool, func() error {
		f := t.follow
		_, answer, err = f.askOnce(ctx)
		return err
	})
	return answer, err
}

// askOnce asks for the task once. A task that has failed is no error.
func (f *follower) askOnce(ctx context.Context) (t task.Task, answer TaskAnswer, err error) {
	raw, err := f.request(ctx, "tasks/get", task.Params(f.id()), nil)
	t, failed, err := f.read(raw, err)
	if failed != nil {
		raw = f.view.Redact(raw) // as an error is
	}
	return t, TaskAnswer{JSON: raw, State: string(t.Status), Modern: f.view.Modern()}, err
}

// Respond sends answers to what the task asks for, an object by the keys of inputRequests, as it is
// (since 2026-07-28). What the server makes of them, Ask shows.
//
// Errors: ErrInvalid (the answers are not a JSON object, or the server speaks an earlier version),
// ErrRPC, ErrUnavailable and the other errors of a request.
func (t *Task) Respond(ctx context.Context, responses json.RawMessage) error {
	raw, err := checkArguments(responses)
	if err != nil {
		return withOp(invalidRequest(errors.New("the answers are not a JSON object")), "answer a task of "+t.tool)
	}
	return t.hold(ctx, "answer a task of "+t.tool, func() error {
		f := t.follow
		if f.view.State == supervisor.StateReady && !f.view.Modern() {
			return invalidRequest(errors.New("a server before 2026-07-28 asks by requests of its own, while Wait runs"))
		}
		return f.tell(ctx, "tasks/update", task.UpdateParams(f.id(), raw))
	})
}

// watchPause is how often a server is asked for a task that is watched, at least.
const watchPause = 30 * time.Second

// Watch calls f with what the server says about the task: first, and when that has changed, until the
// task has ended. It asks when the server says that the task has changed, at the next incarnation when
// the server ends, and otherwise rarely. What the task asks for stays unanswered.
//
// Errors: those of [Task.Wait].
func (t *Task) Watch(ctx context.Context, f func(TaskAnswer)) error {
	return t.hold(ctx, "watch a task of "+t.tool, func() error {
		w := t.follow
		w.watches = true
		defer func() { w.watches = false }()
		first := true
		return w.each(ctx, func(ctx context.Context) (done bool, _ error) {
			began := time.Now()
			said, answer, err := w.askOnce(ctx)
			if err != nil {
				return false, w.asked(ctx, err)
			}
			if w.found(said, began) || first {
				first = false
				f(answer)
			}
			return answer.Ended(), nil
		})
	})
}
