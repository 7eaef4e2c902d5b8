package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// Spent is what a request has taken: all of it, and of that the wait in the queue of
// Limits.MaxInFlight. Both are 0 if the server was not ready.
type Spent struct{ Took, Queued time.Duration }

// Request sends one request to the incarnation in service: snapshot → incarnation →
// session, through no mailbox. timeout is the time without progress (0: the server's
// Timeouts.Call); Timeouts.CallTotal bounds the request as a whole. Each bounds the wait
// in the queue, too; only CallTotal is reduced by that wait. spent.Took is the time since
// r.Began, which is now if it is zero. The error is a *mcpvisor.Error with every field but
// Op.
func (rt *Runtime) Request(ctx context.Context, v *View, r transport.Request, timeout time.Duration) (result json.RawMessage, spent Spent, err error) {
	if v.State != supervisor.StateReady {
		return nil, spent, v.unavailable()
	}
	inc := v.current
	r.Timeout, r.TotalTimeout = CallTimeouts(v.Spec.Timeouts, timeout)
	r.LogLevel = inc.desired.LogLevel()
	if r.Began.IsZero() {
		r.Began = time.Now()
	}
	began := r.Began
	queued, e := inc.beginCall(ctx, &r)
	if e != nil {
		e.Server, e.Gen, e.Epoch = inc.server, inc.gen, inc.epoch
		return nil, Spent{Took: time.Since(began)}, e
	}
	if queued > 0 {
		r.Began = began.Add(queued)
		if r.TotalTimeout > 0 {
			r.TotalTimeout = max(r.TotalTimeout-queued, time.Millisecond)
		}
	}
	failed, lost := true, false // so that a panic on the way counts as a failure
	defer func() { inc.endCall(failed, lost) }()
	raw, err := inc.session.Request(ctx, r)
	spent = Spent{Queued: queued, Took: time.Since(began)}
	if spent.Took >= slowCall {
		rt.opts.Logger.Warn().Str("server", inc.server).Uint64("epoch", inc.epoch).Str("method", r.Method).Str("target", shownTarget(r.Method, r.Target)).
			Dur("took", spent.Took).Bool("failed", err != nil).Msg("slow call")
	}
	if err == nil {
		failed = false
		return raw, spent, nil
	}
	e = &mcpvisor.Error{Kind: mcpvisor.KindProtocol, Outcome: mcpvisor.OutcomeUnknown, Cause: err}
	if shared := (*mcpvisor.Error)(nil); errors.As(err, &shared) {
		*e = *shared // several callers may receive the same error
	}
	e.Server, e.Gen, e.Epoch = inc.server, inc.gen, inc.epoch
	switch {
	case e.Kind == mcpvisor.KindCrashed && e.Outcome == mcpvisor.OutcomeNotSent:
		// Nothing was sent, so the call was not lost with the session.
		e.Kind, e.RetryAfter = mcpvisor.KindUnavailable, startingRetryAfter
	case e.Kind == mcpvisor.KindCrashed:
		lost = true
	case e.Kind == mcpvisor.KindTimeout && e.Hint == "":
		e.Hint = timeoutHint(r, spent)
	}
	return nil, spent, e
}

// timeoutHint says which of its timeouts ended a call. r has the timeouts as they were
// after the wait in the queue.
func timeoutHint(r transport.Request, spent Spent) string {
	if r.TotalTimeout > 0 && (spent.Took-spent.Queued >= r.TotalTimeout || r.Timeout == 0) {
		return fmt.Sprintf("exceeded Timeouts.CallTotal (%v)", (r.TotalTimeout + spent.Queued).Round(time.Millisecond))
	}
	return fmt.Sprintf("no result or progress for %v; raise Timeouts.Call, or set WithTimeout for the call", r.Timeout.Round(time.Millisecond))
}

// slowCall is the duration from which a call is logged.
const slowCall = 5 * time.Second

// shorter is the shorter of two timeouts; 0 means unbounded.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// CallTimeouts returns how long a call may take without progress (requested, or else
// Timeouts.Call), and as a whole; 0 means as long as its context.
func CallTimeouts(t mcpvisor.Timeouts, requested time.Duration) (idle, total time.Duration) {
	idle = requested
	if idle == 0 {
		idle = t.Call
	}
	return max(idle, 0), max(t.CallTotal, 0)
}

// unavailable explains why a server accepts no calls now, and when a call may succeed.
func (v *View) unavailable() *mcpvisor.Error {
	e := &mcpvisor.Error{Server: v.Name, Gen: v.Gen, Epoch: v.Epoch, Kind: mcpvisor.KindUnavailable, Outcome: mcpvisor.OutcomeNotSent}
	if v.Cause != nil {
		e.Cause, e.Stderr = v.Cause, v.Cause.Stderr
	}
	if v.replaced {
		e.RetryAfter, e.Cause = startingRetryAfter, errors.New("it is being replaced")
		return e
	}
	switch v.State {
	case supervisor.StateEvicted:
		e.Kind, e.Hint = mcpvisor.KindEvicted, "fix the server, then call Restart or register it again"
		if v.Attempt > 0 {
			e.Hint = "given up " + display.AfterRestarts(v.Attempt, v.Spec.Policy.MaxAttempts) + "; " + e.Hint
		}
	case supervisor.StateUnauthorized:
		e.Kind, e.Hint = mcpvisor.KindAuthRequired, "set credentials, then unregister it and register it again"
		if required := (*mcpvisor.AuthRequired)(nil); errors.As(v.Cause, &required) {
			e.Hint = "" // the cause says what to do
		}
	case supervisor.StateStopping, supervisor.StateStopped:
		e.Kind, e.Cause = mcpvisor.KindClosed, errors.New("the server is being unregistered")
	case supervisor.StateBackoff, supervisor.StateParked:
		e.RetryAfter = max(time.Until(v.RetryAt), time.Millisecond)
	default:
		e.RetryAfter = startingRetryAfter
		if v.Cause == nil {
			e.Cause = errors.New("it is still starting")
		}
	}
	return e
}

// startingRetryAfter is the RetryAfter of a server that is just starting: how long that
// takes is unknown.
const startingRetryAfter = 100 * time.Millisecond

// AwaitReady waits until a server is ready, and returns its view. It fails when ctx ends,
// and when the server is unregistered, evicted or unauthorized.
func (rt *Runtime) AwaitReady(ctx context.Context, name string) (*View, error) {
	for {
		s := rt.Snapshot()
		v := s.Server(name)
		switch {
		case v == nil && s.closed:
			return nil, ClosedError(name)
		case v == nil:
			return nil, &mcpvisor.Error{Server: name, Kind: mcpvisor.KindUnknownServer, Outcome: mcpvisor.OutcomeNotSent}
		case v.State == supervisor.StateReady && v.current.session.Cause() == nil:
			return v, nil
		case v.replaced: // the next registration follows
		case v.State == supervisor.StateEvicted, v.State == supervisor.StateUnauthorized, v.State == supervisor.StateStopping:
			return nil, v.unavailable()
		}
		select {
		case <-s.Changed():
		case <-ctx.Done():
			e := v.unavailable()
			e.Kind, e.Cause, e.Hint = mcpvisor.KindCanceled, context.Cause(ctx), "the server is "+string(v.State)
			return nil, e
		}
	}
}
