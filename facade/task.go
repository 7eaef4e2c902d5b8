package facade

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/relayhook"
	"github.com/mcpvisor/mcpvisor/internal/task"
)

// Task is a tool call that its server executes as a task (MCP 2025-11-25, tasks; since
// 2026-07-28 the extension io.modelcontextprotocol/tasks), or one that the server has
// answered at once. It outlives the session in which it was begun. Safe for concurrent use.
type Task struct {
	c    *Client
	tool string // as it was called
	// resumed: the task is of an earlier call, and is listed while a caller waits for it.
	resumed bool

	// turn holds one element while no goroutine waits for the task. Its holder owns the
	// fields below.
	turn     chan struct{}
	canceled atomic.Bool         // Cancel was called: the task is open only while a caller waits
	follow   *follower           // nil: the server has answered at once
	answer   response            // its raw is nil until the call has a result
	result   *mcp.CallToolResult // answer decoded; nil until Wait has
	err      error               // final
}

// StartTask calls a tool and returns as soon as the server has accepted the call as a task. If the
// server makes no task of the call, StartTask takes as long as [Client.CallTool], and the Task that
// it returns has already ended. The timeouts of the call bound StartTask alone; nothing but its
// context bounds [Task.Wait]. A server of 2025-11-25 is asked for a task if the tool accepts that.
// Interceptors do not see the call. For [Client.History] and for an observer the call ends when
// StartTask returns.
//
// Errors: as those of [Client.CallTool].
func (c *Client) StartTask(ctx context.Context, tool string, args any, opts ...CallOption) (*Task, error) {
	t := &Task{c: c, tool: tool, turn: make(chan struct{}, 1)}
	var q tracked
	defer q.abandon()
	share := new(budget.Share)
	defer share.Release()
	r, err := c.callTool(ctx, &q, tool, toolArguments{value: args}, append(slices.Clip(opts), func(o *callOptions) { o.detached = true }), share)
	if err == nil && r.task == nil {
		t.answer = r
		t.result, err = decodeToolResult(ctx, &r)
	}
	if q.end(c, err) != nil {
		return nil, withOp(err, "start "+tool)
	}
	t.follow = r.task
	t.turn <- struct{}{}
	return t, nil
}

// ID returns the server's id of the task; empty if the server answered at once. Some servers
// accept it as the only credential, so treat it as a secret.
func (t *Task) ID() string {
	if t.follow == nil {
		return ""
	}
	return t.follow.id()
}

// State returns what is known of the task, as [Client.Tasks] lists it, without asking the server.
// Its State may also be "completed", "failed" or "cancelled".
func (t *Task) State() mcpvisor.OpenTask {
	if t.follow == nil {
		return mcpvisor.OpenTask{Tool: t.tool, State: string(task.Completed)}
	}
	return t.c.openTasks.show(t.follow)
}

// Wait follows the task until it has ended, and returns the result of the call. It asks as
// often as the server wants, has the handlers of the host answer what the task asks for, and
// waits for the next incarnation when the server ends. The end of ctx leaves the task alone,
// and Wait may be called again. Of several callers one follows the task, and the others wait
// for it.
//
// Errors: as those of [Client.CallTool]. ErrCrashed: the task did not survive the end of its
// server, or the server did not come back. ErrInputRequired: the task asks for what no handler
// gives; answer it by hand ([Task.Inputs], [Task.Answer]), and wait again.
func (t *Task) Wait(ctx context.Context) (*mcp.CallToolResult, error) {
	err := t.await(ctx, func(share *budget.Share) (err error) {
		if t.result == nil {
			r := t.answer
			r.share, r.began, r.queued = share, time.Now(), 0 // the result may have come long ago
			t.result, err = decodeToolResult(ctx, &r)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return t.result, nil
}

// WaitRaw is [Task.Wait] that returns the result as the server sent it, undecoded. Do not modify
// it.
func (t *Task) WaitRaw(ctx context.Context) (json.RawMessage, error) {
	if err := t.await(ctx, func(*budget.Share) error { return nil }); err != nil {
		return nil, err
	}
	return t.answer.raw, nil
}

// await follows the task until the call has a result. It then calls the function then with the share
// of the memory budget that the result holds. One caller waits at a time; the others take turns.
func (t *Task) await(ctx context.Context, then func(share *budget.Share) error) error {
	op := "wait for " + t.tool
	if err := t.take(ctx, op); err != nil {
		return err
	}
	defer t.give()
	if t.err != nil {
		return t.err
	}
	share := new(budget.Share)
	defer share.Release()
	if t.answer.raw == nil {
		if t.resumed { // the others are listed since they were started
			t.c.openTasks.add(t.follow)
			defer t.c.openTasks.remove(t.follow)
		}
		got, err := t.follow.run(ctx, share)
		if err != nil {
			err = t.wrap(err, op)
			if ctx.Err() == nil && !errors.Is(err, mcpvisor.ErrInputRequired) { // otherwise the task continues
				t.err = err
				t.c.openTasks.remove(t.follow)
			}
			return err
		}
		t.answer = got
		t.c.openTasks.remove(t.follow)
	}
	if err := then(share); err != nil {
		return t.wrap(err, op)
	}
	return nil
}

// take waits for the turn of the caller, who gives it back.
func (t *Task) take(ctx context.Context, op string) error {
	select {
	case <-t.turn:
		return nil
	case <-ctx.Done():
		return &mcpvisor.Error{Op: op, Kind: mcpvisor.ErrCanceled, Outcome: mcpvisor.OutcomeUnknown, Cause: context.Cause(ctx)}
	}
}

func (t *Task) give() {
	t.turn <- struct{}{}
	t.settle()
}

// settle closes a canceled task, unless a caller follows it. Then the last follower closes it.
func (t *Task) settle() {
	if !t.canceled.Load() {
		return
	}
	select {
	case <-t.turn:
		t.c.openTasks.remove(t.follow)
		t.resumed = true
		t.turn <- struct{}{}
	default:
	}
}

// wrap completes the error of an operation on the task.
func (t *Task) wrap(err error, op string) error {
	e := *asError(err)
	e.Op = op
	if t.follow != nil {
		v := t.follow.view
		e.Server, e.Gen, e.Epoch, e.Cause = v.Name, v.Gen, v.Epoch, hideID(e.Cause, t.follow.id())
	}
	return &e
}

// Cancel asks the server to cancel the task. The server decides whether it does, and [Task.Wait]
// returns the outcome; [Client.Tasks] no longer lists the task. Cancel has no effect on a task
// that has ended.
//
// Errors: ErrUnavailable and the other errors of a request.
func (t *Task) Cancel(ctx context.Context) error {
	if t.follow == nil {
		return nil
	}
	err := t.follow.requestCancel(ctx)
	if err == nil {
		t.c.openTasks.unlist(t.follow)
		t.canceled.Store(true)
		t.settle()
	}
	return withOp(err, "cancel "+t.tool)
}

// Tasks returns the calls that servers execute as tasks and that have not ended, oldest first:
// those for which CallTool and the other calls wait; those of StartTask until Wait has returned
// their end or Cancel was called; and those of ResumeTask while Wait runs. The slice is the
// caller's.
func (c *Client) Tasks() []mcpvisor.OpenTask { return c.openTasks.list() }

// CancelTask is relay.Methods.CancelTask.
func (c relayed) CancelTask(ctx context.Context, number uint64) error {
	f := c.openTasks.find(number)
	if f == nil {
		return withOp(invalidRequest(fmt.Errorf("no task %d is open", number)), "cancel a task")
	}
	return withOp(f.requestCancel(ctx), "cancel "+mcpvisor.Qualify(f.server, f.tool))
}

// openTasks are the tasks that have not ended. The zero value is empty. Safe for concurrent
// use.
type openTasks struct {
	mu   sync.Mutex
	all  map[*follower]uint64 // their numbers
	last uint64               // the number that was given last
}

// add lists a task. Its key, if it has one, does not expire until it is removed.
func (o *openTasks) add(f *follower) {
	if f.o.keyed != nil {
		release := f.c.opts.journal.store.Hold(f.o.Key)
		f.held.Store(&release)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = map[*follower]uint64{}
	}
	o.last++
	o.all[f] = o.last
}

// unlist leaves the key and the id of the task to its follower.
func (o *openTasks) unlist(f *follower) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.all, f)
}

func (o *openTasks) remove(f *follower) {
	o.unlist(f)
	f.drop()
	f.release()
}

// release lets the keys of all tasks expire.
func (o *openTasks) release() {
	o.mu.Lock()
	all := slices.Collect(maps.Keys(o.all))
	o.mu.Unlock()
	for _, f := range all {
		f.release()
	}
}

// release lets the key of the call expire.
func (f *follower) release() {
	if release := f.held.Swap(nil); release != nil {
		(*release)()
	}
}

// find returns the task with a number; nil if it is not open.
func (o *openTasks) find(number uint64) *follower {
	o.mu.Lock()
	defer o.mu.Unlock()
	for f, n := range o.all {
		if n == number {
			return f
		}
	}
	return nil
}

// has reports whether a task of a server is open.
func (o *openTasks) has(server string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for f := range o.all {
		if f.server == server {
			return true
		}
	}
	return false
}

func (o *openTasks) list() []mcpvisor.OpenTask {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make([]mcpvisor.OpenTask, 0, len(o.all))
	for f := range o.all {
		all = append(all, o.showLocked(f))
	}
	slices.SortFunc(all, func(a, b mcpvisor.OpenTask) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Number, b.Number))
	})
	return all
}

// show returns what is shown of a task; its number is 0 if it is not open.
func (o *openTasks) show(f *follower) mcpvisor.OpenTask {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.showLocked(f)
}

func (o *openTasks) showLocked(f *follower) mcpvisor.OpenTask {
	open := f.open()
	open.Number = o.all[f]
	return open
}

// open is what is shown of the task.
func (f *follower) open() mcpvisor.OpenTask {
	f.mu.Lock()
	defer f.mu.Unlock()
	return mcpvisor.OpenTask{Principal: f.o.Key.Principal, Key: f.o.Key.Key, Server: f.server, Tool: f.tool, State: string(f.task.Status), Message: f.task.Message,
		Began: f.began, Updated: f.updated, Recovered: f.recovered}
}

// cancelTimeout bounds a tasks/cancel that no caller waits for.
const cancelTimeout = 5 * time.Second

// cancelTask asks a server to cancel a task, in the background.
func (c *Client) cancelTask(f *follower) {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), cancelTimeout)
		defer cancel()
		_ = f.requestCancel(ctx) // the answer is not needed
	}()
}

// asErrorOrNil returns a copy of the error of ours in err.
func asErrorOrNil(err error) *mcpvisor.Error {
	if err == nil {
		return nil
	}
	own := *asError(err)
	return &own
}

// asTask appends the member of params that asks for a task (MCP 2025-11-25, tasks) to params
// of tools/call.
func asTask(params json.RawMessage, wanted *relayhook.TaskRelay) json.RawMessage {
	params = append(params[:len(params)-1], `,"task":{`...)
	if wanted != nil && wanted.TTL > 0 {
		params = append(params, `"ttl":`...)
		params = strconv.AppendInt(params, wanted.TTL.Milliseconds(), 10)
	}
	return append(params, "}}"...)
}
