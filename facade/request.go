package facade

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// retryPause is the wait between attempts of a waiting call on one incarnation: it is
// ready, but cannot be reached at the moment.
var retryPause = backoff.Backoff{First: 100 * time.Millisecond, Max: 5 * time.Second}

// sendTo sends a request with params to a server that is given by name. Its result is q.response.
func (c *Client) sendTo(ctx context.Context, q *tracked, server string, r transport.Request, params any, opts []CallOption) error {
	s := c.rt.Snapshot()
	view := s.Server(server)
	if view == nil {
		return unknownServer(s, server)
	}
	o := c.callOptions(opts)
	q.setMeta(o.Meta)
	ctx = c.begin(ctx, q, view, r.Method, r.Target, r.Method == "prompts/get" && view.Catalog.HasPrompt(r.Target))
	var err error
	if r.Params, err = json.Marshal(params); err != nil {
		return &mcpvisor.Error{Server: server, Kind: mcpvisor.ErrInvalid, Outcome: mcpvisor.OutcomeNotSent, Cause: err}
	}
	q.record.Client, q.principal = o.ClientName, o.Principal
	if o.HasKey && o.err == nil {
		o.err = errors.New("WithKey is for calls of tools only")
	}
	if r.Method == "completion/complete" && !isFirst(&o.Continuation) {
		o.err = errRelayOnly
	}
	if o.err != nil {
		return invalidRequest(o.err)
	}
	r.Params = appendRound(r.Params, &o.Continuation)
	if view, err = c.awaitServer(ctx, view, o); err != nil {
		return err
	}
	if err = c.checkListed(view, r.Method, r.Target, r.Params); err != nil {
		return err
	}
	if r.Held = new(budget.Share); o.room != nil {
		r.Held = o.room
	}
	if err = c.sendWhenReady(ctx, q, view, &r, o); err != nil {
		r.Held.Release()
		return err
	}
	if o.room != nil {
		q.response.share = nil // the caller releases it
	}
	return nil
}

// awaitServer waits until a server is ready, with WithWaitReady. Without that option it waits only for a server that is at
// rest, and returns the view of any other server at once.
func (c *Client) awaitServer(ctx context.Context, v *actors.View, o *callOptions) (*actors.View, error) {
	switch {
	case !o.WaitReady && !v.Rests():
		return v, nil
	case !o.WaitReady:
		return c.wake(ctx, v, o)
	}
	if err := checkBounded(ctx, v, o); err != nil {
		return nil, err
	}
	return c.rt.AwaitReady(ctx, v.Name)
}

// wake waits for one start of a server that is at rest, within the timeouts of the call.
func (c *Client) wake(ctx context.Context, v *actors.View, o *callOptions) (*actors.View, error) {
	if err := checkBounded(ctx, v, o); err != nil {
		return nil, err
	}
	return c.rt.Wake(ctx, v.Name, wakeTimeout(v, o.Timeout))
}

// wakeTimeout is how long a request waits for one start of a server; 0 means as long as its context.
func wakeTimeout(v *actors.View, requested time.Duration) time.Duration {
	idle, total := actors.CallTimeouts(&v.Spec.Timeouts, requested)
	if idle == 0 || total > 0 && total < idle {
		return total
	}
	return idle
}

// checkBounded refuses a call that nothing would end: neither its context nor a timeout.
func checkBounded(ctx context.Context, v *actors.View, o *callOptions) error {
	if _, bounded := ctx.Deadline(); bounded {
		return nil
	}
	if idle, total := actors.CallTimeouts(&v.Spec.Timeouts, o.Timeout); idle > 0 || total > 0 {
		return nil
	}
	return &mcpvisor.Error{Server: v.Name, Gen: v.Gen, Epoch: v.Epoch, Kind: mcpvisor.ErrInvalid,
		Outcome: mcpvisor.OutcomeNotSent, Cause: errUnbounded, Hint: "set one of the three"}
}

// errUnbounded is the cause of a call that nothing but the server would end.
var errUnbounded = errors.New("nothing would end the call if the server does not: its timeout and Timeouts.CallTotal are negative, and its context has no deadline")

// sendWhenReady sends one request. With WithWaitReady it sends it again if nothing was sent for a temporary reason
// ([isTemporary]), and only then. Without that option it does so only if the server has just gone to sleep. It completes r.
// The result is q.response.
func (c *Client) sendWhenReady(ctx context.Context, q *tracked, v *actors.View, r *transport.Request, o *callOptions) error {
	if err := checkBounded(ctx, v, o); err != nil {
		return err
	}
	r.Track, r.Progress = true, o.Progress
	if q.observation != nil {
		r.Meta, r.ID = q.observation.meta, &q.observation.id
	}
	r.Caller = o.caller(&c.opts.handlers)
	if o.Meta != nil {
		r.Meta = mergeMeta(r.Meta, o.Meta)
	}
	for pause := retryPause.First; ; pause = retryPause.Next(pause) {
		if v.State == supervisor.StateReady && !v.Modern() && !isFirst(&o.Continuation) {
			return invalidRequest(errEarlierVersion)
		}
		began := time.Now()
		r.Began = began
		if o.guarded != nil || c.opts.guard != nil {
			r.Waited = c.recheckLater(v, r, o.guarded)
		}
		raw, spent, err := c.rt.Request(ctx, v, r, o.Timeout)
		r.Began = began // without the wait in the queue, which Request has added
		q.view, q.record.Began, q.record.Took = v, began, spent.Took
		switch err {
		case nil:
			q.answered(v, raw)
			q.response.raw, q.response.view, q.response.began, q.response.queued = raw, v, began, spent.Queued
			q.response.timeout, q.response.share = o.Timeout, r.Held
			return nil
		case transport.ErrTask:
			return c.continueAsTask(ctx, q, v, r, o, raw)
		}
		if v, err = c.nextAttempt(ctx, v, r, o, err, pause); err != nil {
			return err
		}
	}
}

// recheckLater is for [transport.Request.Waited].
func (c *Client) recheckLater(v *actors.View, r *transport.Request, g *guardedCall) func() error {
	method, target, params := r.Method, r.Target, r.Params
	return func() error { return c.recheck(v, method, target, params, g) }
}

// nextAttempt waits until a request that failed with err is worth another attempt, for [Client.sendWhenReady], and returns the
// server for it. The error is that of the call.
func (c *Client) nextAttempt(ctx context.Context, v *actors.View, r *transport.Request, o *callOptions, err error, pause time.Duration) (next *actors.View, _ error) {
	var e *mcpvisor.Error
	if !errors.As(err, &e) || e.Outcome != mcpvisor.OutcomeNotSent || !isTemporary(e.Kind) {
		return nil, err
	}
	var waitErr error
	again := errors.Is(err, errAskAgain)
	switch {
	case again:
		if next = c.rt.Snapshot().Server(v.Name); next == nil {
			return nil, err
		}
	case o.WaitReady:
		next, waitErr = c.rt.AwaitReady(ctx, v.Name)
	case v.FellAsleep(): // in this moment
		next, waitErr = c.wake(ctx, v, o)
	default:
		return nil, err
	}
	if waitErr != nil {
		if e.Kind == mcpvisor.ErrClosed && errors.Is(waitErr, mcpvisor.ErrUnknownServer) { // unregistered, not replaced
			return nil, err
		}
		return nil, waitErr
	}
	if next.Gen == v.Gen && next.Epoch == v.Epoch && !again { // ready, and unreachable nevertheless
		if backoff.Sleep(ctx, max(pause, e.RetryAfter)) != nil {
			return nil, err
		}
		if now := c.rt.Snapshot().Server(v.Name); now != nil { // its lists may have changed; if it is not ready, the next turn waits
			next = now
		}
	}
	if err := c.checkListed(next, r.Method, r.Target, r.Params); err != nil { // the next incarnation may offer something else
		return nil, err
	}
	if o.guarded != nil {
		next, _, err = c.permit(ctx, next, r.Target, o.guarded)
		return next, err
	}
	return next, nil
}

// checkListed refuses a request for a tool that a server does not list, for a prompt that is withheld, and for completions of
// a prompt or resource template that is.
func (c *Client) checkListed(v *actors.View, method, target string, params json.RawMessage) (err error) {
	prompt, template := target, ""
	switch method {
	case "tools/call":
		_, err = c.checkTool(v, mcpvisor.Qualify(v.Name, target), target)
	case "completion/complete":
		ref := jsonscan.Member(params, "ref")
		prompt, _ = jsonscan.ReadString(jsonscan.Member(ref, "name")) // it is a string, or missing
		template, _ = jsonscan.ReadString(jsonscan.Member(ref, "uri"))
		fallthrough
	case "prompts/get":
		if text := v.Catalog.Withheld(prompt, template); text != "" {
			return withheld(v.Name, mcpvisor.ErrDenied, text)
		}
	}
	return err
}

// isTemporary reports whether a reason for which nothing was sent may be gone in a moment, without a change by the caller or an
// operator: the server was down, was replaced, ended just then or had too much to do.
func isTemporary(k mcpvisor.ErrorKind) bool {
	switch k {
	default:
		return false
	case mcpvisor.ErrUnavailable, mcpvisor.ErrClosed, mcpvisor.ErrCrashed, mcpvisor.ErrEnded, mcpvisor.ErrOverloaded:
		return true
	}
}

// continueAsTask continues a call after the server has made a task of it.
func (c *Client) continueAsTask(ctx context.Context, q *tracked, v *actors.View, r *transport.Request, o *callOptions, result json.RawMessage) error {
	defer v.TaskTaken()
	if o.TaskRelay != nil {
		err := relayTask(o.TaskRelay, v, result)
		if err == nil {
			q.task = taskName(v.Name, o.TaskRelay.ID, o.TaskRelay.Origin)
			q.answered(v, result)
		}
		q.response = response{raw: result, view: v, began: r.Began, timeout: o.Timeout, share: r.Held}
		return err
	}
	f, err := c.newFollower(v, r, o, result)
	r.Held.Release()
	if err == nil && o.keyed != nil {
		o.keyed.becameTask(f.id(), f.origin)
	}
	switch {
	case err != nil:
		return err
	case o.detached:
		c.openTasks.add(f)
		q.task = taskName(v.Name, f.id(), f.origin.String())
		q.answered(v, result)
		q.response = response{task: f}
		return nil
	}
	return f.follow(ctx, q, r.Held)
}

// tracked follows one request of a caller from its start to its end, for the facts and
// for the observer. The goroutine of the caller owns it.
//
//	var q tracked
//	defer q.abandon()
//	… c.begin(ctx, &q, …) …
//	return q.end(c, err)
type tracked struct {
	c    *Client
	view *actors.View // the registration; nil before begin
	// listed: the server lists a tool or prompt of the name in record.Target.
	listed bool
	ended  bool
	// replayed: the journal has answered the request, so it is not counted.
	replayed bool
	record   monitor.CallRecord
	response response // of a request without an error
	// keyed is the call with a key, which the end releases; nil without a key.
	keyed *keyedCall
	// principal is that of the key. arguments are for WithEndedCalls; nil if they are not wanted.
	principal string
	arguments json.RawMessage
	task      string // by taskName: the call returns before the end of this one; empty: of none
	// meta is that of WithMeta, for the observer; nil without one. It is a pointer, because most calls have none.
	meta *json.RawMessage
	// observation is nil without an observer.
	observation *observation
}

// begin starts to track a request for a registration, before it waits for anything. It
// returns the context of the request.
func (c *Client) begin(ctx context.Context, q *tracked, v *actors.View, method, target string, listed bool) context.Context {
	q.c, q.view, q.listed = c, v, listed
	q.record.Method, q.record.Target = method, target
	if o := c.rt.Observer(); o != nil {
		return q.observe(ctx, o)
	}
	return ctx
}

// answered notes the result of the request.
func (q *tracked) answered(v *actors.View, result json.RawMessage) {
	q.view, q.record.Epoch, q.record.ResultBytes = v, v.Epoch, len(result)
	if q.record.Method == "tools/call" {
		if q.record.ToolError = isToolError(result); q.record.ToolError {
			q.record.Error = toolErrorText(v, result)
		}
	}
}

// end releases the key of the request, records its end and returns err. If the request named no registered
// server, end only counts that.
func (q *tracked) end(c *Client, err error) error {
	q.keyed.release() // a function of the host may use it
	if q.replayed {
		return err
	}
	if q.view == nil {
		if err != nil {
			c.rt.RecordUnknownServer()
		}
		return err
	}
	if q.ended {
		return err
	}
	q.ended = true
	var failure *mcpvisor.Error
	if err != nil {
		failure = asError(err)
		q.fail(failure)
	}
	if q.observation != nil {
		q.endObservation(failure)
	}
	c.rt.RecordCall(q.view, &q.record, q.listed)
	if c.opts.ended != nil {
		c.opts.ended(monitor.EndedCall{CallRecord: q.record, Principal: shownName(q.principal), Arguments: q.arguments, Task: q.task})
	}
	return err
}

// fail notes the error of the request; nil for none.
func (q *tracked) fail(e *mcpvisor.Error) {
	if e != nil {
		q.record.Kind, q.record.Outcome, q.record.Error, q.record.Epoch = e.Kind, e.Outcome, recordedText(e), cmp.Or(e.Epoch, q.record.Epoch)
	}
}

// asError returns the error of ours in err.
func asError(err error) *mcpvisor.Error {
	var e *mcpvisor.Error
	if !errors.As(err, &e) {
		return &mcpvisor.Error{Kind: mcpvisor.ErrProtocol, Outcome: mcpvisor.OutcomeUnknown, Cause: err}
	}
	return e
}

// errCallbackPanicked is the cause of a call whose Progress function has panicked.
var errCallbackPanicked = errors.New("a function of the caller panicked during the call")

// abandon ends the tracking of a request that ends with a panic of a function of the
// caller. Defer it.
func (q *tracked) abandon() {
	q.keyed.release()
	if q.view != nil && !q.ended {
		_ = q.end(q.c, &mcpvisor.Error{Server: q.view.Name, Gen: q.view.Gen, Epoch: q.view.Epoch,
			Kind: mcpvisor.ErrCanceled, Outcome: mcpvisor.OutcomeUnknown, Cause: errCallbackPanicked})
	}
}

// isErrorMember is the member of a tool's result that marks a failure of the tool. In the
// text of a JSON string it cannot occur, because the quotes would be escaped.
var isErrorMember = []byte(`"isError"`)

// isToolError reports whether the result of a tool has isError. Most results do not have
// the member, or have it once and false, so they are not parsed.
func isToolError(result json.RawMessage) bool {
	at := bytes.Index(result, isErrorMember)
	if at < 0 {
		return false
	}
	rest := bytes.TrimLeft(result[at+len(isErrorMember):], " \t\r\n:")
	if bytes.HasPrefix(rest, []byte("false")) && !bytes.Contains(rest, isErrorMember) {
		return false
	}
	return string(jsonscan.Member(result, "isError")) == "true"
}

// WithObserver reports the start and the end of each request to observer, for traces and metrics;
// see [monitor.Observer]. Default, and for nil: none, which costs nothing.
func WithObserver(observer monitor.Observer) Option {
	return func(o *options) {
		if o.observer = nil; observer != nil {
			o.observer = observer
		}
	}
}

// observation is what the observer is shown of one request. The goroutine of the caller
// owns it. Values are reused.
type observation struct {
	by    monitor.Observer
	ctx   context.Context // of RequestStarted, for RequestEnded
	start monitor.RequestStart
	meta  json.RawMessage // members of _meta that travel with the request; nil for none
	id    int64           // of the request; the session writes it before it sends
}

var observationPool = sync.Pool{New: func() any { return new(observation) }}

// setMeta keeps what the caller gave WithMeta.
func (q *tracked) setMeta(meta json.RawMessage) {
	if meta != nil {
		kept := meta // so that only this is allocated, and only here
		q.meta = &kept
	}
}

// observe shows the observer the start of the request, and returns the context of the
// request.
func (q *tracked) observe(ctx context.Context, by monitor.Observer) context.Context {
	o := observationPool.Get().(*observation)
	q.observation, o.by = o, by
	o.start = q.view.RequestStart(q.record.Method, q.record.Target)
	if o.start.Listed = q.listed; q.meta != nil {
		o.start.Meta = *q.meta
	}
	o.ctx, o.meta = q.c.rt.RequestStarted(ctx, by, o.start)
	return o.ctx
}

// endObservation shows the observer the end of the request.
func (q *tracked) endObservation(failure *mcpvisor.Error) {
	o := q.observation
	q.observation = nil
	end := monitor.RequestEnd{RequestStart: q.view.RequestStart(o.start.Method, o.start.Target), Began: q.record.Began, Took: q.record.Took,
		Err: failure, ToolError: q.record.ToolError, Outcome: q.record.Outcome, ResultBytes: q.record.ResultBytes, RequestID: o.id}
	end.Listed, end.Meta = q.listed, o.start.Meta
	if q.record.Epoch != 0 {
		end.Epoch = q.record.Epoch
	}
	if failure == nil {
		end.Outcome = mcpvisor.OutcomeAnswered
	}
	q.c.rt.RequestEnded(o.ctx, o.by, end)
	*o = observation{}
	observationPool.Put(o)
}
