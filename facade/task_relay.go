package facade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/relayhook"
	"github.com/mcpvisor/mcpvisor/internal/task"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// When a server makes a task of a call, a host that calls for its own clients, such as a gateway, hands the task
// to the client that has made the call. That client asks for the task as often as it wants. The host keeps only
// the names of the server and of the task.

// errTaskRelayOnly is the cause of a call with options by which both the caller and this client would follow its task.
var errTaskRelayOnly = errors.New("WithTaskRelay hands the task to the caller, so it cannot be combined with WithKey or StartTask")

// relayTask notes which task the server has made of the call.
func relayTask(t *relayhook.TaskRelay, v *actors.View, result json.RawMessage) error {
	made, err := task.Read(result)
	if err != nil {
		return unreadableTask(err)
	}
	if v.HoldTask(&made, true) == nil {
		return unreadableTask(errTaskTwice)
	}
	v.TaskAsked(made.ID)
	t.Server, t.ID, t.Modern = v.Name, strings.Clone(made.ID), v.Modern()
	t.Origin = taskOrigin{v.Incarnation(), made.Created, targetOf(v.Spec)}.String()
	return nil
}

// TaskOf implements relay.Methods.
func (c relayed) TaskOf(server, id string, opts ...CallOption) (*Task, error) {
	s := c.rt.Snapshot()
	v := s.Server(server)
	switch {
	case v == nil:
		return nil, withOp(unknownServer(s, server), "find a task")
	case id == "" || len(id) > task.MaxID:
		return nil, withOp(invalidRequest(fmt.Errorf("the id of a task has 1 to %d bytes", task.MaxID)), "find a task")
	}
	o := *c.callOptions(opts)
	o.detached = true
	now := time.Now()
	t := &Task{c: c.Client, tool: server, turn: make(chan struct{}, 1), resumed: true}
	t.follow = &follower{c: c.Client, o: o, server: server, began: now, since: now, answered: now, view: v, resumed: true, origin: o.taskOrigin}
	if err := t.follow.checkTarget(v); err != nil {
		return nil, withOp(err, "find a task")
	}
	t.follow.note(task.Task{ID: id, Status: task.Working}, now)
	t.turn <- struct{}{}
	return t, nil
}

// AskTask is relay.Ask.
func (relayFunctions) AskTask(ctx context.Context, t *Task) (answer relayhook.TaskAnswer, err error) {
	err = t.hold(ctx, "ask for a task of "+t.tool, func() error {
		f := t.follow
		_, answer, err = f.askOnce(ctx)
		return err
	})
	return answer, err
}

// askOnce asks for the task once. A task that has failed is no error.
func (f *follower) askOnce(ctx context.Context) (t task.Task, answer relayhook.TaskAnswer, err error) {
	raw, err := f.request(ctx, "tasks/get", task.Params(f.id()), nil)
	t, failed, err := f.read(raw, err)
	switch code, isRPC := transport.ErrorCode(err); {
	case failed != nil:
		raw = f.view.Redact(raw) // as an error is
		f.reportEnd(nil, failed)
	case isRPC && code == sdkrpc.CodeInvalidParams:
		f.reportEnd(nil, f.gone(asError(err)))
	case err == nil && t.Status == task.Cancelled:
		f.reportEnd(nil, errTaskCanceled(t.Message))
	case err == nil && t.Status.Final() && f.view.Modern(): // otherwise tasks/result has the end
		f.reportEnd(t.Result, nil)
	}
	if err == nil && !(t.Status.Final() && f.view.Modern()) { // before 2026-07-28 it has its result still
		f.view.TaskAsked(t.ID)
	}
	return t, relayhook.TaskAnswer{JSON: raw, State: string(t.Status), Modern: f.view.Modern()}, err
}

// RespondToTask is relay.Respond.
func (relayFunctions) RespondToTask(ctx context.Context, t *Task, responses json.RawMessage) error {
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

// WatchTask is relay.Watch.
func (relayFunctions) WatchTask(ctx context.Context, t *Task, f func(relayhook.TaskAnswer)) error {
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
