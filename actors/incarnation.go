package actors

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors/internal/subscription"
	"github.com/mcpvisor/mcpvisor/transport"
)

// incarnation is one life of a server: its session, and the calls on it. It dies with
// its session, and calls watch nothing else. Safe for concurrent use.
type incarnation struct {
	// Set before it is shared, and never changed.
	server  string
	gen     uint64
	epoch   uint64
	spec    *mcpvisor.ServerSpec
	session transport.Session
	started time.Time
	desired *subscription.Desired // of the registration
	stats   *registrationStats    // of the registration
	port    *actor.PID            // the actor that owns the session

	limiter limiter
	// isStandby: the events that its server sends are dropped, because the server in
	// service sends the same. The supervising actor clears it at a takeover.
	isStandby atomic.Bool
	recorded  sync.Once // what the session has left behind; see Runtime.recordLeft
}

// newIncarnation makes an incarnation of a registration, with a session that is not
// open yet.
func newIncarnation(s *supervisingActor, epoch uint64, standby bool) *incarnation {
	inc := &incarnation{server: s.name, gen: s.gen, epoch: epoch, spec: s.spec, stats: s.stats,
		session: s.dialer.NewSession(), started: time.Now(), desired: s.rt.desiredOf(s.gen)}
	inc.limiter.maxInFlight = int64(s.spec.Limits.MaxInFlight)
	inc.limiter.maxQueued = int64(max(s.spec.Limits.MaxQueued, 0))
	inc.isStandby.Store(standby)
	return inc
}

// beginCall waits until the limiter admits a call, and returns how long it stood in the
// queue. The shorter timeout of r bounds that; 0 means unbounded. A dead session admits no
// call: one that comes later is not lost with the session.
func (i *incarnation) beginCall(ctx context.Context, r *transport.Request) (queued time.Duration, e *mcpvisor.Error) {
	if isClosed(i.session.Dead()) {
		return 0, i.unavailable()
	}
	if !i.limiter.tryAcquire() {
		began := time.Now()
		i.stats.calls.queued.Add(1)
		call := transport.InFlight{Method: r.Method, Target: r.Target, Began: r.Began}
		e := i.limiter.acquire(ctx, i.session.Dead(), call, shorter(r.Timeout, r.TotalTimeout))
		i.stats.calls.queued.Add(-1)
		if e != nil {
			return 0, e
		}
		queued = time.Since(began)
	}
	i.stats.calls.begin()
	return queued, nil
}

// endCall ends the count of a call in flight. lost: it failed with the session.
func (i *incarnation) endCall(failed, lost bool) {
	i.stats.calls.end(failed)
	i.limiter.release(lost)
}

// lostCalls is how many calls failed with the session, or are about to.
func (i *incarnation) lostCalls() int { return i.limiter.lostCalls() }

// unavailable is the error of a call that was started with a snapshot older than the
// death of the session.
func (i *incarnation) unavailable() *mcpvisor.Error {
	e := &mcpvisor.Error{Kind: mcpvisor.KindUnavailable, Outcome: mcpvisor.OutcomeNotSent, RetryAfter: startingRetryAfter}
	if cause := i.session.Cause(); cause != nil {
		e.Cause, e.Stderr = cause, cause.Stderr
	}
	return e
}

// wrapError makes the error that a caller of Refresh, Subscribe or SetLoggingLevel
// receives; nil stays nil. Each caller gets an error of its own, as it adds the operation.
func (i *incarnation) wrapError(err error) error {
	if err == nil {
		return nil
	}
	e := &mcpvisor.Error{Server: i.server, Gen: i.gen, Epoch: i.epoch, Kind: mcpvisor.KindProtocol,
		Outcome: mcpvisor.OutcomeAnswered, Cause: err}
	switch inner := (*mcpvisor.Error)(nil); {
	case errors.As(err, &inner):
		e.Kind, e.Outcome, e.RetryAfter, e.Stderr = inner.Kind, inner.Outcome, inner.RetryAfter, inner.Stderr
		if e.Kind == mcpvisor.KindCanceled { // by the timeout of the port: no caller can
			e.Kind = mcpvisor.KindTimeout
		}
	case errors.Is(err, context.DeadlineExceeded):
		e.Kind, e.Outcome = mcpvisor.KindTimeout, mcpvisor.OutcomeUnknown
	}
	return e
}
