package facade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
	"github.com/mcpvisor/mcpvisor/internal/task"
	"github.com/mcpvisor/mcpvisor/transport"
)

// A follower brings a call to its end after the server has made a task of it. It asks for
// the task until that has ended, also at the next incarnations of the server, and never
// sends the call again. One goroutine runs it at a time.
type follower struct {
	c            *Client
	o            callOptions
	server, tool string // tool is the server's own name for it
	// began is when the call was made, answered when the server last said something about the
	// task. CallTotal counts from since, which is later if another host has made the call.
	began, since, answered time.Time
	// view is the incarnation that knew the task last; lost: it has ended since. recovered
	// counts the incarnations at which the task was found again.
	view  *actors.View
	lost  bool
	watch *actors.TaskWatch // of the task at view, while poll runs
	// resumed: another host made the call, or another host follows the task, and no incarnation was
	// asked yet.
	resumed bool
	watches bool        // of Task.Watch: the server is asked rarely, since it says when the task changes
	polls   bool        // each runs, so the requests take their turns
	origin  *taskOrigin // of the task; nil: any task with the id

	unreachable time.Duration // the last pause before a server that could not be reached, or has failed
	answers     int           // about the task, since its state changed
	failures    int           // errors in a row that may pass
	refusals    int           // of the result of a task that has ended (2025-11-25)
	known       bool          // the server has answered once
	final       bool          // the end of the call is known
	inputs      taskInputs
	early       chan error // the end of a tasks/result that was asked for before the end of the task; nil if none is
	hasResult   bool       // that has given the result

	held      atomic.Pointer[func()] // lets the key of the call expire; nil: it is not held, or has none
	mu        sync.Mutex             // guards what Client.Tasks reads
	task      task.Task              // without result, error and requests
	updated   time.Time
	recovered int
	proven    string           // the incarnation that has the task, as it has shown; empty: none
	hold      *actors.HeldTask // of the incarnation that has it; nil: of none
	learned   time.Time        // createdAt of a later answer of the session that made the task
}

// newFollower begins to follow the task in result, the answer to a call.
func (c *Client) newFollower(v *actors.View, r *transport.Request, o *callOptions, result json.RawMessage) (*follower, error) {
	t, err := task.Read(result)
	if err != nil {
		return nil, unreadableTask(err)
	}
	hold := v.HoldTask(&t, true)
	if hold == nil {
		return nil, unreadableTask(errTaskTwice)
	}
	now := time.Now()
	f := &follower{c: c, o: *o, server: v.Name, tool: strings.Clone(r.Target), began: r.Began, since: r.Began, answered: now, view: v, hold: hold,
		proven: v.Incarnation(), origin: &taskOrigin{v.Incarnation(), t.Created, targetOf(v.Spec)}}
	f.note(t, now)
	return f, nil
}

// unreadableTask is the error of an answer about a task that makes no sense.
func unreadableTask(err error) *mcpvisor.Error {
	return &mcpvisor.Error{Kind: mcpvisor.ErrProtocol, Outcome: mcpvisor.OutcomeUnknown, Cause: &senselessAnswer{err},
		Hint: "the server is at fault; report it to its authors"}
}

// senselessAnswer is the cause of an error of unreadableTask.
type senselessAnswer struct{ error }

// Unwrap returns what is wrong.
func (e *senselessAnswer) Unwrap() error { return e.error }

// follow follows a task in place of the call that it was made of.
func (f *follower) follow(ctx context.Context, q *tracked, share *budget.Share) error {
	f.c.openTasks.add(f)
	defer f.c.openTasks.remove(f)
	got, err := f.run(ctx, share)
	q.view, q.record.Began, q.record.Took = f.view, f.since, time.Since(f.since)
	if err != nil {
		return f.finish(err)
	}
	q.answered(got.view, got.raw)
	q.response = got
	return nil
}

// finish completes the error of a task, and cancels the task if it may still run.
func (f *follower) finish(err error) error {
	e := *asError(err)
	e.Server, e.Gen, e.Epoch = f.view.Name, f.view.Gen, f.view.Epoch
	givenUp := !f.final && f.o.keyed == nil && (e.Kind == mcpvisor.ErrCanceled || e.Kind == mcpvisor.ErrTimeout)
	if givenUp || e.Kind == mcpvisor.ErrInputRequired {
		f.c.cancelTask(f)
	}
	return &e
}

// errTaskOverdue is the cause of a context that ends with Timeouts.CallTotal.
var errTaskOverdue = errors.New("the task has taken longer than the call may")

// run asks for the task until it has ended, and returns the result of the call.
func (f *follower) run(ctx context.Context, share *budget.Share) (response, error) {
	got, err := f.poll(ctx, share)
	if err != nil {
		own := *asError(err)
		own.Cause = hideID(own.Cause, f.id())
		err = &own
		f.final = f.final || own.Kind == mcpvisor.ErrInputRequired && !f.o.detached
	}
	if k := f.o.keyed; k != nil && (err == nil || f.final) {
		if raw, known := k.taskEnded(f.view, got.raw, err); known { // another handle of the task was told first
			got = response{raw: raw, view: f.view, began: time.Now(), timeout: f.o.Timeout, share: share}
			err = nil
		}
	}
	lost := err != nil && sessionEnded(asError(err)) && (f.final || f.o.keyed == nil)
	if lost {
		f.c.rt.TaskLost(f.view, f.tool)
	}
	given := f.hold != nil && f.o.keyed == nil && ctx.Err() == nil && !errors.Is(err, mcpvisor.ErrInputRequired) // [Task.Wait] asks no more
	if err == nil || f.final || lost || given {
		f.reportEnd(got.raw, err)
	}
	return got, err
}

// sessionEnded reports whether the session ended during a request.
func sessionEnded(e *mcpvisor.Error) bool {
	return e.Kind == mcpvisor.ErrCrashed || e.Kind == mcpvisor.ErrEnded
}

// poll is run without the journal.
func (f *follower) poll(ctx context.Context, share *budget.Share) (got response, err error) {
	err = f.each(ctx, func(ctx context.Context) (done bool, err error) {
		got, done, err = f.ask(ctx, share)
		return done, err
	})
	return got, err
}

// each calls ask, which asks for the task once, whenever it is time to, until that is done.
func (f *follower) each(ctx context.Context, ask func(context.Context) (done bool, err error)) error {
	var cancel context.CancelFunc
	if _, total := actors.CallTimeouts(&f.view.Spec.Timeouts, f.o.Timeout); total > 0 && !f.o.detached {
		ctx, cancel = overdue.WithDeadlineCause(ctx, f.since.Add(total), errTaskOverdue)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	defer cancel()
	f.polls = true
	defer func() { f.polls = false }()
	f.watch = f.c.rt.WatchTask(f.view, f.id())
	defer func() { f.watch.Stop() }()
	for {
		if err := f.pause(ctx); err != nil {
			return err
		}
		if f.lost {
			if err := f.awaitNext(ctx); err != nil {
				return err
			}
			f.watch.Stop()
			f.watch = f.c.rt.WatchTask(f.view, f.id())
		}
		if done, err := ask(ctx); done || err != nil {
			return err
		}
	}
}

// listenFrom is the pause from which it is worth a request to be told that the task changes.
const listenFrom = time.Second

// pause waits until the server wants to be asked again, until it says that the task has changed,
// until its session ends, and until there is something to send to it.
func (f *follower) pause(ctx context.Context) error {
	if f.lost {
		return f.contextError(ctx)
	}
	pause := f.nextPause()
	if pause >= listenFrom {
		f.watch.Listen(f.view)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	changed := f.watch.Changed
	for {
		select {
		case <-timer.C:
			return f.contextError(ctx)
		case <-f.view.Ended():
			return f.contextError(ctx)
		case <-ctx.Done():
			return f.contextError(ctx)
		case <-changed:
			changed = nil
		case answer := <-f.inputs.answers: // nil while none is awaited
			if err := f.inputs.handled(answer); err != nil {
				return err
			}
		case err := <-f.early:
			if f.early = nil; err != nil { // the server does not hold the request
				continue
			}
			f.hasResult = true
		}
		timer.Reset(task.MinPoll - time.Since(f.answered))
	}
}

// nextPause is how long the follower waits before it asks again. A task that waited for input
// when it was made, or had ended, is asked for at once.
func (f *follower) nextPause() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.known && (f.resumed || f.task.Status != task.Working) {
		return 0
	}
	pause := f.task.Pause(f.answers)
	if f.watches {
		pause = max(pause, watchPause)
	}
	if idle, _ := actors.CallTimeouts(&f.view.Spec.Timeouts, f.o.Timeout); idle > 0 {
		pause = max(min(pause, idle/2), task.MinPoll) // the answer restarts the time without progress
	}
	return pause
}

// contextError is the error of a call whose context has ended; nil if it has not.
func (f *follower) contextError(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	e := &mcpvisor.Error{Kind: mcpvisor.ErrCanceled, Outcome: mcpvisor.OutcomeUnknown, Cause: context.Cause(ctx)}
	if e.Cause == errTaskOverdue {
		_, total := actors.CallTimeouts(&f.view.Spec.Timeouts, f.o.Timeout)
		e.Kind, e.Cause = mcpvisor.ErrTimeout, nil
		e.Hint = fmt.Sprintf("the server made a task of the call, which has not ended within Timeouts.CallTotal (%v); StartTask waits longer", total)
	}
	return e
}

// awaitNext waits for the next incarnation of the server, as long as the call may be
// without progress.
func (f *follower) awaitNext(ctx context.Context) error {
	if idle, _ := actors.CallTimeouts(&f.view.Spec.Timeouts, f.o.Timeout); idle > 0 && !f.o.detached {
		var cancel context.CancelFunc
		ctx, cancel = overdue.WithDeadlineCause(ctx, f.answered.Add(idle), errNotBack)
		defer cancel()
	}
	next, err := f.c.rt.AwaitReady(ctx, f.view.Name)
	if err == nil {
		err = f.checkTarget(next)
	}
	if err == nil && !f.resumed && next.Gen == f.view.Gen && next.Epoch == f.view.Epoch { // ready, and it cannot be reached
		f.unreachable = retryPause.Next(f.unreachable)
		err = backoff.Sleep(ctx, f.unreachable)
	}
	if err == nil {
		f.view, f.resumed = next, false
		return nil
	}
	why := "has not come back within the time that the call may be without progress"
	if context.Cause(ctx) != errNotBack {
		if err := f.contextError(ctx); err != nil {
			return err
		}
		// err becomes text: its classification, as that nothing was sent, is not that of the call.
		e := asError(err)
		text := string(e.Kind)
		if e.Cause != nil {
			text = e.Cause.Error()
		}
		if e.Kind == mcpvisor.ErrClosed || e.Kind == mcpvisor.ErrUnknownServer {
			return &mcpvisor.Error{Kind: mcpvisor.ErrClosed, Outcome: mcpvisor.OutcomeUnknown, Cause: fmt.Errorf("the server was removed while it worked on the call as a task: %s", text)}
		}
		why = "has not come back: " + text
	}
	return &mcpvisor.Error{Kind: mcpvisor.ErrCrashed, Outcome: mcpvisor.OutcomeUnknown, Cause: errors.New("the server ended while it worked on the call as a task, and " + why)}
}

// errNotBack is the cause of a context that ends because the server did not come back.
var errNotBack = errors.New("the server has not come back in time")

// maxTaskFailures is how many errors in a row a follower takes for passing ones.
const maxTaskFailures = 3

// get asks for the task once. known: the server has said how it is.
func (f *follower) get(ctx context.Context, share *budget.Share) (t task.Task, known bool, err error) {
	began := time.Now()
	raw, err := f.request(ctx, "tasks/get", task.Params(f.id()), share)
	t, failed, err := f.read(raw, err)
	if err == nil {
		err = failed
	}
	if err != nil {
		return t, false, f.asked(ctx, err)
	}
	f.found(t, began)
	return t, true, nil
}

// read reads the answer to tasks/get, and checks that it is about the task. failed is the error of the
// call, if the task has failed.
func (f *follower) read(raw json.RawMessage, err error) (t task.Task, failed, _ error) {
	if errors.As(err, new(*transport.TaskFailure)) && len(raw) > 0 {
		failed, err = err, nil
	}
	if err != nil {
		if code, isRPC := transport.ErrorCode(err); isRPC && code == sdkrpc.CodeInvalidParams {
			f.dropEnded(&f.task)
		}
		return t, nil, err
	}
	if t, err = task.Read(raw); err == nil && t.ID != f.id() {
		err = errors.New("the server answered for another task than it was asked for")
	}
	if err != nil {
		return t, nil, unreadableTask(err)
	}
	if err = f.identify(&t); err != nil {
		return t, nil, err
	}
	if f.view.Modern() && t.Status.Final() { // it has come with its end
		f.dropEnded(&t)
		if task.Is(t.Result, true) {
			f.final = true
			return t, nil, unreadableTask(errTaskInTask)
		}
	}
	return t, failed, nil
}

// errTaskInTask is the cause of a task without a result.
var errTaskInTask = errors.New("the result of the task is a task again")

// ask asks for the task once. done: it has ended, and got is the result of the call.
func (f *follower) ask(ctx context.Context, share *budget.Share) (got response, done bool, err error) {
	if f.hasResult {
		f.hasResult = false
		return f.fetch(ctx, task.Completed, share)
	}
	began := time.Now()
	t, known, err := f.get(ctx, share)
	if !known {
		return response{}, false, err
	}
	legacy := !f.view.Modern()
	switch t.Status {
	case task.Cancelled:
		f.final = true
		return response{}, false, errTaskCanceled(t.Message)
	case task.Completed, task.Failed:
		if legacy {
			return f.fetch(ctx, t.Status, share)
		}
		if f.final = true; t.Status == task.Failed || len(t.Result) == 0 || t.Result[0] != '{' {
			return response{}, false, unreadableTask(fmt.Errorf("the task has %s, and its answer does not hold what came of it", t.Status))
		}
		return response{raw: t.Result, view: f.view, began: began, timeout: f.o.Timeout, share: share}, true, nil
	case task.InputRequired:
		if legacy { // the server sends its requests while tasks/result waits
			f.fetchEarly(ctx)
			return response{}, false, nil
		}
		err = f.supply(ctx, t.Requests)
	default:
	}
	share.Release()
	return response{}, false, err
}

// errTaskCanceled is the error of a task that the server has canceled, with this message.
func errTaskCanceled(message string) *mcpvisor.Error {
	if message != "" {
		message = ": " + message
	}
	return &mcpvisor.Error{Kind: mcpvisor.ErrCanceled, Outcome: mcpvisor.OutcomeUnknown, Cause: errors.New("the server has canceled the task" + message)}
}

// request sends a request about the task to the incarnation that has it.
func (f *follower) request(ctx context.Context, method string, params json.RawMessage, share *budget.Share) (json.RawMessage, error) {
	r := transport.Request{Method: method, Target: f.id(), Params: params, Held: share, Caller: f.o.caller(&f.c.opts.handlers)}
	before := time.Now()
	if f.view.Rests() {
		awake, err := f.c.wake(ctx, f.view, &f.o)
		if err != nil {
			return nil, err
		}
		f.view = awake
	}
	if method != "tasks/cancel" { // of which there is one for a task
		f.view.AwaitTaskTurn(ctx)
	}
	if f.polls {
		f.answered = f.answered.Add(time.Since(before)) // the server was not asked meanwhile
	}
	raw, _, err := f.c.rt.Request(ctx, f.view, &r, f.o.Timeout)
	return raw, err
}

// asked judges the error of a request about the task: nil means that it is asked for again.
func (f *follower) asked(ctx context.Context, err error) error {
	e := asError(err)
	if failed := (*transport.TaskFailure)(nil); errors.As(err, &failed) { // the error of the call
		f.heard()
		f.final = true
		own := *e
		own.Cause = failed.Err
		return &own
	}
	code, isRPC := transport.ErrorCode(err)
	switch {
	case ctx.Err() != nil:
		return f.contextError(ctx)
	case sessionEnded(e), e.Outcome == mcpvisor.OutcomeNotSent && (e.Kind == mcpvisor.ErrUnavailable || e.Kind == mcpvisor.ErrClosed):
		f.lost, f.early, f.hasResult = true, nil, false
		return nil
	case isRPC && (code == sdkrpc.CodeInvalidParams || code == sdkrpc.CodeMethodNotFound):
		return f.gone(e)
	case errors.As(err, new(*senselessAnswer)):
		return e
	case e.Kind == mcpvisor.ErrOverloaded: // by other calls of this client
		_ = backoff.Sleep(ctx, max(e.RetryAfter, task.MinPoll)) // poll looks at ctx
		return nil
	case isOutage(err) && !f.overdue():
		return f.retry(ctx, e)
	case isRPC && f.lost && f.failures >= maxTaskFailures: // some servers have no code for what they do not know
		return f.notSurvived(e)
	case e.Kind == mcpvisor.ErrTimeout, e.Kind == mcpvisor.ErrAuthRequired, f.failures >= maxTaskFailures:
		own := *e
		own.Outcome = mcpvisor.OutcomeUnknown
		return &own
	}
	f.failures++
	return f.retry(ctx, e)
}

// maxRetryAfter bounds how long a server may keep a follower from asking it.
const maxRetryAfter = 30 * time.Second

// retry waits before the server is asked again, longer each time.
func (f *follower) retry(ctx context.Context, e *mcpvisor.Error) error {
	f.unreachable = retryPause.Next(f.unreachable)
	_ = backoff.Sleep(ctx, min(max(e.RetryAfter, f.unreachable), maxRetryAfter)) // poll looks at ctx
	return nil
}

// overdue reports whether the call has been without progress for as long as it may.
func (f *follower) overdue() bool {
	idle, _ := actors.CallTimeouts(&f.view.Spec.Timeouts, f.o.Timeout)
	return idle > 0 && !f.o.detached && time.Since(f.answered) >= idle
}

// isOutage reports whether a server over HTTP, or a proxy in front of it, has failed (5xx). That
// says nothing of the task.
func isOutage(err error) bool {
	var outage interface{ Outage() bool }
	return errors.As(err, &outage) && outage.Outage()
}

// notSurvived is the error of a task that the next incarnation does not know.
func (f *follower) notSurvived(e *mcpvisor.Error) error {
	return &mcpvisor.Error{Kind: mcpvisor.ErrCrashed, Outcome: mcpvisor.OutcomeUnknown,
		Cause: fmt.Errorf("the task of the call did not survive the end of the server: %w", e.Cause)}
}

// gone is the error of a task that the server does not know.
func (f *follower) gone(e *mcpvisor.Error) error {
	f.final = true
	if f.lost {
		return f.notSurvived(e)
	}
	if f.task.TTL > 0 && time.Since(f.began) > f.task.TTL {
		return &mcpvisor.Error{Kind: mcpvisor.ErrRPC, Outcome: mcpvisor.OutcomeUnknown,
			Cause: fmt.Errorf("the server kept the task of the call for %v only: %w", f.task.TTL, e.Cause)}
	}
	// Over HTTP a server may be restarted without a sign of it.
	return &mcpvisor.Error{Kind: mcpvisor.ErrCrashed, Outcome: mcpvisor.OutcomeUnknown,
		Cause: fmt.Errorf("the server no longer knows the task of the call, so the task did not survive: %w", e.Cause)}
}

// heard notes that the server knows the task.
func (f *follower) heard() {
	f.answered, f.failures, f.unreachable = time.Now(), 0, 0
	if f.lost {
		f.mu.Lock()
		f.recovered++
		f.mu.Unlock()
		f.c.rt.TaskRecovered(f.view, f.tool)
	}
	f.lost, f.known = false, true
}

// found notes that the server knows the task, and what it said. It reports whether that has changed.
func (f *follower) found(t task.Task, at time.Time) (changed bool) {
	f.heard()
	f.answers++
	if changed = f.note(t, at); changed {
		f.answers = 0
		if f.o.Progress != nil && t.Message != "" {
			f.o.Progress(mcpvisor.Progress{Message: hideText(t.Message, t.ID)})
		}
	}
	return changed
}

// note keeps what is shown of a task, and reports whether it has changed.
func (f *follower) note(t task.Task, at time.Time) (changed bool) {
	t.Result, t.Failure, t.Requests = nil, nil, nil
	t.Message = hideText(t.Message, t.ID)
	f.mu.Lock()
	defer f.mu.Unlock()
	changed = f.task.Status != t.Status || f.task.Message != t.Message
	if changed {
		f.updated = at
	}
	f.task = t
	return changed
}

func (f *follower) id() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.task.ID
}

// fetch asks for the result of a task that has ended, in 2025-11-25. The error of a task that has
// failed is that of the call; of one that has completed, the server does not have the result.
func (f *follower) fetch(ctx context.Context, ended task.Status, share *budget.Share) (response, bool, error) {
	began := time.Now()
	raw, err := f.request(ctx, "tasks/result", task.Params(f.id()), share)
	if err != nil {
		e := asError(err)
		if ended == task.Failed && e.Kind == mcpvisor.ErrRPC && e.Outcome == mcpvisor.OutcomeAnswered {
			f.final = true
			return response{}, false, e
		}
		if e.Kind == mcpvisor.ErrRPC {
			if f.refusals++; f.refusals > maxTaskFailures { // tasks/get, in between, succeeds
				own := *e
				own.Outcome = mcpvisor.OutcomeUnknown
				return response{}, false, &own
			}
		}
		return response{}, false, f.asked(ctx, err)
	}
	f.final = true
	f.dropEnded(&f.task)
	if task.Is(raw, false) {
		return response{}, false, unreadableTask(errTaskInTask)
	}
	return response{raw: raw, view: f.view, began: began, timeout: f.o.Timeout, share: share}, true, nil
}

// fetchEarly asks for the result of a task that has not ended, in the background: while a
// server of 2025-11-25 holds that request, it asks for the input that the task waits for. The
// result is asked for once more, because this one counts against no limit of memory.
func (f *follower) fetchEarly(ctx context.Context) {
	if f.early != nil {
		return
	}
	f.early = make(chan error, 1)
	into, view := f.early, f.view
	r := transport.Request{Method: "tasks/result", Target: f.id(), Params: task.Params(f.id()), Caller: f.o.caller(&f.c.opts.handlers)}
	go func() {
		view.AwaitTaskTurn(ctx)
		_, _, err := f.c.rt.Request(ctx, view, &r, -1)
		into <- err
	}()
}

// minSecretID is the length from which an id of a task can be a credential, in bytes.
const minSecretID = 6

// hideID returns an error in whose texts the id of a task is not found.
func hideID(err error, id string) error {
	if err == nil || len(id) < minSecretID || !strings.Contains(err.Error(), id) {
		return err
	}
	hide := func(text string) string { return hideText(text, id) }
	var rpc *sdkrpc.Error
	if !errors.As(err, &rpc) {
		return errors.New(hide(err.Error()))
	}
	own := &sdkrpc.Error{Code: rpc.Code, Message: hide(rpc.Message), Data: json.RawMessage(hide(string(rpc.Data)))}
	if err == error(rpc) {
		return own
	}
	return &hiddenID{hide(err.Error()), own}
}

// hideText returns a text in which the id of a task is not found.
func hideText(text, id string) string {
	if len(id) < minSecretID {
		return text
	}
	return strings.ReplaceAll(text, id, "***")
}

// hiddenID is an error whose texts do not have the id of a task.
type hiddenID struct {
	text string
	err  error
}

// Error implements error.
func (e *hiddenID) Error() string { return e.text }

// Unwrap returns the error of the server.
func (e *hiddenID) Unwrap() error { return e.err }
