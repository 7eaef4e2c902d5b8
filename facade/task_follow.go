package facade

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/task"
	"github.com/mcpvisor/mcpvisor/supervisor"
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
	// resumed: another host made the call, and no incarnation was asked yet.
	resumed bool

	unreachable time.Duration // the last pause before a server that is ready, and that could not be reached
	polls       int           // answers since the state of the task changed
	failures    int           // errors in a row that may pass
	known       bool          // the server has answered once
	final       bool          // the task has ended
	inputs      taskInputs
	early       chan error // the end of a tasks/result that was asked for before the end of the task; nil if none is

	mu        sync.Mutex // guards what Client.Tasks reads
	task      task.Task  // without result, error and requests
	updated   time.Time
	recovered int
}

// newFollower begins to follow the task in result, the answer to a call.
func (c *Client) newFollower(v *actors.View, r transport.Request, o callOptions, result json.RawMessage) (*follower, error) {
	t, err := task.Read(result)
	if err != nil {
		return nil, unreadableTask(err)
	}
	now := time.Now()
	f := &follower{c: c, o: o, server: v.Name, tool: strings.Clone(r.Target), began: r.Began, since: r.Began, answered: now, view: v}
	f.note(t, now)
	return f, nil
}

// unreadableTask is the error of an answer about a task that makes no sense.
func unreadableTask(err error) *mcpvisor.Error {
	return &mcpvisor.Error{Kind: mcpvisor.KindProtocol, Outcome: mcpvisor.OutcomeUnknown, Cause: err,
		Hint: "the server is at fault; report it to its authors"}
}

// follow follows a task in place of the call that it was made of.
func (f *follower) follow(ctx context.Context, q *tracked, share *budget.Share) (response, error) {
	f.c.openTasks.add(f)
	defer f.c.openTasks.remove(f)
	got, err := f.run(ctx, share)
	q.view, q.record.Began, q.record.Took = f.view, f.since, time.Since(f.since)
	if err != nil {
		return response{}, f.finish(err)
	}
	q.answered(got.view, got.raw)
	return got, nil
}

// finish completes the error of a task, and cancels the task if it may still run.
func (f *follower) finish(err error) error {
	e := *asError(err)
	e.Server, e.Gen, e.Epoch = f.view.Name, f.view.Gen, f.view.Epoch
	e.Cause = hideID(e.Cause, f.id())
	givenUp := f.o.keyed == nil && (e.Kind == mcpvisor.KindCanceled || e.Kind == mcpvisor.KindTimeout)
	if !f.final && (givenUp || e.Kind == mcpvisor.KindInputRequired) {
		f.c.cancelTask(f.view.Name, f.id())
	}
	return &e
}

// errTaskOverdue is the cause of a context that ends with Timeouts.CallTotal.
var errTaskOverdue = errors.New("the task has taken longer than the call may")

// run asks for the task until it has ended, and returns the result of the call.
func (f *follower) run(ctx context.Context, share *budget.Share) (response, error) {
	got, err := f.poll(ctx, share)
	if err != nil && asError(err).Kind == mcpvisor.KindCrashed && (f.final || f.o.keyed == nil) {
		f.c.rt.TaskLost(f.view, f.tool)
	}
	if k := f.o.keyed; k != nil && (err == nil || f.final || asError(err).Kind == mcpvisor.KindInputRequired) {
		if err != nil {
			own := *asError(err)
			own.Cause = hideID(own.Cause, f.id())
			k.ended(f.view, nil, &own)
		} else {
			k.ended(f.view, got.raw, nil)
		}
	}
	return got, err
}

// poll is run without the journal.
func (f *follower) poll(ctx context.Context, share *budget.Share) (response, error) {
	var cancel context.CancelFunc
	if _, total := actors.CallTimeouts(f.view.Spec.Timeouts, f.o.timeout); total > 0 && !f.o.detached {
		ctx, cancel = context.WithDeadlineCause(ctx, f.since.Add(total), errTaskOverdue)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	defer cancel()
	f.watch = f.c.rt.WatchTask(f.view, f.id())
	defer func() { f.watch.Stop() }()
	for {
		if err := f.pause(ctx); err != nil {
			return response{}, err
		}
		if f.lost {
			if err := f.awaitNext(ctx); err != nil {
				return response{}, err
			}
			f.watch.Stop()
			f.watch = f.c.rt.WatchTask(f.view, f.id())
		}
		got, done, err := f.ask(ctx, share)
		if done || err != nil {
			return got, err
		}
	}
}

// listenFrom is the pause from which it is worth a request to be told that the task changes.
const listenFrom = time.Second

// pause waits until the server wants to be asked again, until it says that the task has changed,
// until its session ends, and until there is something to send to it.
func (f *follower) pause(ctx context.Context) error {
	if f.lost {
		return f.ended(ctx)
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
		case <-changed:
			if wait := task.MinPoll - time.Since(f.answered); wait > 0 {
				changed = nil
				timer.Reset(min(wait, pause))
				continue
			}
		case <-f.view.Ended():
		case <-ctx.Done():
		case answer := <-f.inputs.answers: // nil while none is awaited
			if err := f.inputs.keep(answer); err != nil {
				return err
			}
		case err := <-f.early:
			if f.early = nil; err != nil { // the server does not hold the request
				continue
			}
		}
		return f.ended(ctx)
	}
}

// nextPause is how long the follower waits before it asks again. A task that waited for input
// when it was made, or had ended, is asked for at once.
func (f *follower) nextPause() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.known && f.task.Status != task.Working {
		return 0
	}
	pause := f.task.Pause(f.polls)
	if idle, _ := actors.CallTimeouts(f.view.Spec.Timeouts, f.o.timeout); idle > 0 {
		pause = min(pause, idle/2) // the answer restarts the time without progress
	}
	return pause
}

// ended is the error of a call whose context has ended; nil if it has not.
func (f *follower) ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	e := &mcpvisor.Error{Kind: mcpvisor.KindCanceled, Outcome: mcpvisor.OutcomeUnknown, Cause: context.Cause(ctx)}
	if e.Cause == errTaskOverdue {
		_, total := actors.CallTimeouts(f.view.Spec.Timeouts, f.o.timeout)
		e.Kind, e.Cause = mcpvisor.KindTimeout, nil
		e.Hint = fmt.Sprintf("the server made a task of the call, which has not ended within Timeouts.CallTotal (%v); StartTask waits longer", total)
	}
	return e
}

// awaitNext waits for the next incarnation of the server, as long as the call may be
// without progress.
func (f *follower) awaitNext(ctx context.Context) error {
	if idle, _ := actors.CallTimeouts(f.view.Spec.Timeouts, f.o.timeout); idle > 0 && !f.o.detached {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, f.answered.Add(idle), errNotBack)
		defer cancel()
	}
	next, err := f.c.rt.AwaitReady(ctx, f.view.Name)
	if err == nil && !f.resumed && next.Gen == f.view.Gen && next.Epoch == f.view.Epoch { // ready, and it cannot be reached
		f.unreachable = retryPause.Next(f.unreachable)
		err = backoff.Sleep(ctx, f.unreachable)
	}
	if err == nil {
		f.view, f.resumed = next, false
		return nil
	}
	if context.Cause(ctx) != errNotBack {
		if err := f.ended(ctx); err != nil {
			return err
		}
		if e := asError(err); e.Kind == mcpvisor.KindClosed || e.Kind == mcpvisor.KindUnknownServer {
			return &mcpvisor.Error{Kind: mcpvisor.KindClosed, Outcome: mcpvisor.OutcomeUnknown, Cause: errors.New("the server was removed while it worked on the call as a task")}
		}
	}
	return &mcpvisor.Error{Kind: mcpvisor.KindCrashed, Outcome: mcpvisor.OutcomeUnknown, Cause: fmt.Errorf("the server ended while it worked on the call as a task, and has not come back: %w", err)}
}

// errNotBack is the cause of a context that ends because the server did not come back.
var errNotBack = errors.New("the server has not come back within the time that the call may be without progress")

// maxTaskFailures is how many errors in a row a follower takes for passing ones.
const maxTaskFailures = 3

// ask asks for the task once. done: it has ended, and got is the result of the call.
func (f *follower) ask(ctx context.Context, share *budget.Share) (got response, done bool, err error) {
	began := time.Now()
	raw, err := f.request(ctx, "tasks/get", task.Params(f.id()), share)
	if err != nil {
		return response{}, false, f.asked(ctx, err)
	}
	t, err := task.Read(raw)
	switch {
	case err != nil:
		return response{}, false, unreadableTask(err)
	case t.ID != f.id():
		return response{}, false, unreadableTask(errors.New("the server answered for another task than it was asked for"))
	}
	f.found(t, began)
	legacy := !f.view.Modern()
	switch t.Status {
	case task.Cancelled:
		return response{}, false, &mcpvisor.Error{Kind: mcpvisor.KindCanceled, Outcome: mcpvisor.OutcomeUnknown,
			Cause: fmt.Errorf("the server has canceled the task%s", reason(t.Message))}
	case task.Completed, task.Failed:
		if legacy {
			return f.fetch(ctx, share)
		}
		if t.Status == task.Failed || len(t.Result) == 0 || t.Result[0] != '{' {
			return response{}, false, unreadableTask(fmt.Errorf("the task has %s, and its answer does not hold what came of it", t.Status))
		}
		return response{raw: t.Result, view: f.view, began: began, timeout: f.o.timeout, share: share}, true, nil
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

// reason returns the message of a task as a part of a sentence.
func reason(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}

// request sends a request about the task to the incarnation that has it.
func (f *follower) request(ctx context.Context, method string, params json.RawMessage, share *budget.Share) (json.RawMessage, error) {
	r := transport.Request{Method: method, Target: f.id(), Params: params, Held: share, Caller: f.o.caller()}
	raw, _, err := f.c.rt.Request(ctx, f.view, r, f.o.timeout)
	return raw, err
}

// asked judges the error of a request about the task: nil means that it is asked for again.
func (f *follower) asked(ctx context.Context, err error) error {
	e := asError(err)
	if failed := (*transport.TaskFailure)(nil); errors.As(err, &failed) { // the error of the call
		own := *e
		own.Cause = failed.Err
		return &own
	}
	code, isRPC := transport.ErrorCode(err)
	switch {
	case ctx.Err() != nil:
		return f.ended(ctx)
	case e.Kind == mcpvisor.KindCrashed, e.Outcome == mcpvisor.OutcomeNotSent && (e.Kind == mcpvisor.KindUnavailable || e.Kind == mcpvisor.KindClosed):
		f.lost, f.early = true, nil
		return nil
	case isRPC && (code == sdkrpc.CodeInvalidParams || code == sdkrpc.CodeMethodNotFound):
		return f.gone(e)
	case e.Kind == mcpvisor.KindOverloaded: // by other calls of this client
		_ = backoff.Sleep(ctx, e.RetryAfter) // run looks at ctx
		return nil
	case e.Kind == mcpvisor.KindTimeout, e.Kind == mcpvisor.KindAuthRequired, f.failures >= maxTaskFailures:
		own := *e
		own.Outcome = mcpvisor.OutcomeUnknown
		return &own
	}
	f.failures++
	_ = backoff.Sleep(ctx, e.RetryAfter) // run looks at ctx
	return nil
}

// gone is the error of a task that the server does not know.
func (f *follower) gone(e *mcpvisor.Error) error {
	f.final = true
	if f.lost {
		return &mcpvisor.Error{Kind: mcpvisor.KindCrashed, Outcome: mcpvisor.OutcomeUnknown,
			Cause: fmt.Errorf("the task of the call did not survive the end of the server: %w", e.Cause)}
	}
	if f.task.TTL > 0 && time.Since(f.began) > f.task.TTL {
		return &mcpvisor.Error{Kind: mcpvisor.KindRPC, Outcome: mcpvisor.OutcomeUnknown,
			Cause: fmt.Errorf("the server kept the task of the call for %v only: %w", f.task.TTL, e.Cause)}
	}
	// Over HTTP a server may be restarted without a sign of it.
	return &mcpvisor.Error{Kind: mcpvisor.KindCrashed, Outcome: mcpvisor.OutcomeUnknown,
		Cause: fmt.Errorf("the server does not know the task of the call any more, so the task did not survive: %w", e.Cause)}
}

// found notes that the server knows the task, and what it said.
func (f *follower) found(t task.Task, at time.Time) {
	f.answered, f.failures, f.unreachable = time.Now(), 0, 0
	f.mu.Lock()
	if f.lost {
		f.recovered++
		f.c.rt.TaskRecovered(f.view, f.tool)
	}
	changed := f.task.Status != t.Status || f.task.Message != t.Message
	f.mu.Unlock()
	f.lost, f.known = false, true
	f.polls++
	f.final = t.Status.Final()
	f.note(t, at)
	if changed {
		f.polls = 0
		if f.o.progress != nil && t.Message != "" {
			f.o.progress(mcpvisor.Progress{Message: t.Message})
		}
	}
}

// note keeps what is shown of a task.
func (f *follower) note(t task.Task, at time.Time) {
	t.Result, t.Failure, t.Requests = nil, nil, nil
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.task.Status != t.Status || f.task.Message != t.Message {
		f.updated = at
	}
	f.task = t
}

func (f *follower) id() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.task.ID
}

// fetch asks for the result of a task that has ended, in 2025-11-25.
func (f *follower) fetch(ctx context.Context, share *budget.Share) (response, bool, error) {
	began := time.Now()
	raw, err := f.request(ctx, "tasks/result", task.Params(f.id()), share)
	if err != nil {
		e := asError(err)
		if e.Kind == mcpvisor.KindRPC && e.Outcome == mcpvisor.OutcomeAnswered {
			return response{}, false, e // of the call: the server has just said that the task has ended
		}
		return response{}, false, f.asked(ctx, err)
	}
	return response{raw: raw, view: f.view, began: began, timeout: f.o.timeout, share: share}, true, nil
}

// fetchEarly asks for the result of a task that has not ended, in the background: while a
// server of 2025-11-25 holds that request, it asks for the input that the task waits for. The
// result is asked for again when the task has ended.
func (f *follower) fetchEarly(ctx context.Context) {
	if f.early != nil {
		return
	}
	f.early = make(chan error, 1)
	into, view := f.early, f.view
	r := transport.Request{Method: "tasks/result", Target: f.id(), Params: task.Params(f.id()), Caller: f.o.caller()}
	go func() {
		_, _, err := f.c.rt.Request(ctx, view, r, -1)
		into <- err
	}()
}

// taskInputs is the input that a task has asked for, each key once. The goroutine of the
// follower owns it.
type taskInputs struct {
	answers chan taskAnswer // of the handlers that run; nil if none does
	asked   map[string]bool // keys that handlers have got, or are getting
	ready   map[string]json.RawMessage
	sent    map[string]incarnationID // which acknowledged the answer, by key
}

// incarnationID names an incarnation of a server.
type incarnationID struct{ gen, epoch uint64 }

// taskAnswer is what the handlers of the host gave for some keys.
type taskAnswer struct {
	keys      []string
	responses json.RawMessage
	err       error
}

// maxTaskInputs bounds the input that one task may ask for.
const maxTaskInputs = 256

// supply gives the task the input that it waits for: first it asks the handlers of the
// host, in the background, and then it sends what they answered. An answer that another
// incarnation may have lost is sent again, and its handler is not asked again.
func (f *follower) supply(ctx context.Context, requests json.RawMessage) error {
	if len(requests) == 0 { // it may say later what it waits for
		return nil
	}
	in := &f.inputs
	var fresh, send []byte
	var keys, sending []string
	err := jsonscan.EachMember(requests, func(key string, value []byte) error {
		switch {
		case in.ready[key] != nil:
			if in.sent[key] != (incarnationID{f.view.Gen, f.view.Epoch}) {
				send, sending = appendMember(send, key, in.ready[key]), append(sending, strings.Clone(key))
			}
		case !in.asked[key]:
			if len(in.asked)+len(keys) == maxTaskInputs {
				return fmt.Errorf("the task asks for more than %d inputs", maxTaskInputs)
			}
			fresh, keys = appendMember(fresh, key, value), append(keys, strings.Clone(key))
		}
		return nil
	})
	if err != nil {
		return &mcpvisor.Error{Kind: mcpvisor.KindInputRequired, Outcome: mcpvisor.OutcomeUnknown, Cause: fmt.Errorf("the inputRequests of the task: %w", err)}
	}
	if len(keys) > 0 && in.answers == nil {
		f.askHost(ctx, keys, append(fresh, '}'))
	}
	if len(sending) == 0 {
		return nil
	}
	if _, err := f.request(ctx, "tasks/update", task.UpdateParams(f.id(), append(send, '}')), nil); err != nil {
		return f.asked(ctx, err)
	}
	for _, key := range sending {
		in.sent[key] = incarnationID{f.view.Gen, f.view.Epoch}
	}
	f.polls = 0
	return nil
}

// appendMember appends a member to the text of an object that is not closed.
func appendMember(b []byte, key string, value []byte) []byte {
	if len(b) == 0 {
		b = append(b, '{')
	} else {
		b = append(b, ',')
	}
	name, _ := json.Marshal(key) // a string always marshals
	return append(append(append(b, name...), ':'), value...)
}

// askHost has the handlers of the host answer requests, an object of these keys.
func (f *follower) askHost(ctx context.Context, keys []string, requests json.RawMessage) {
	in := &f.inputs
	if in.asked == nil {
		in.asked, in.ready, in.sent = map[string]bool{}, map[string]json.RawMessage{}, map[string]incarnationID{}
	}
	for _, key := range keys {
		in.asked[key] = true
	}
	in.answers = make(chan taskAnswer, 1)
	into, view := in.answers, f.view
	go func() {
		responses, err := f.c.rt.AnswerInputs(ctx, view, f.o.caller(), requests)
		if err != nil && hasEnded(view, err) { // which ends the handlers, too
			err = &mcpvisor.Error{Kind: mcpvisor.KindCrashed, Outcome: mcpvisor.OutcomeUnknown, Cause: err}
		}
		into <- taskAnswer{keys, responses, err}
	}()
}

// hasEnded reports whether the session of a view has ended, perhaps with that error.
func hasEnded(v *actors.View, err error) bool {
	select {
	case <-v.Ended():
		return true
	default:
		return errors.As(err, new(*supervisor.Cause))
	}
}

// keep keeps what the handlers answered, until the server acknowledges it. When the session
// has ended meanwhile, they are asked again at the next one.
func (in *taskInputs) keep(a taskAnswer) error {
	in.answers = nil
	if a.err != nil {
		e := asError(a.err)
		if e.Kind != mcpvisor.KindInputRequired {
			for _, key := range a.keys {
				delete(in.asked, key)
			}
			return nil
		}
		own := *e
		own.Outcome = mcpvisor.OutcomeUnknown // the tool has begun
		return &own
	}
	return jsonscan.EachMember(a.responses, func(key string, value []byte) error {
		in.ready[strings.Clone(key)] = bytes.Clone(value)
		return nil
	})
}

// minSecretID is the length from which an id of a task can be a credential, in bytes.
const minSecretID = 6

// hideID returns an error in whose texts the id of a task is not found.
func hideID(err error, id string) error {
	if err == nil || len(id) < minSecretID || !strings.Contains(err.Error(), id) {
		return err
	}
	hide := func(text string) string { return strings.ReplaceAll(text, id, "***") }
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

// hiddenID is an error whose texts do not have the id of a task.
type hiddenID struct {
	text string
	err  error
}

// Error implements error.
func (e *hiddenID) Error() string { return e.text }

// Unwrap returns the error of the server.
func (e *hiddenID) Unwrap() error { return e.err }
