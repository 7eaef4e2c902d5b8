package actors

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// incarnation is one life of a server: its session and the accounts of the
// calls on it. Its death is the session's death; calls watch nothing else.
type incarnation struct {
	server  string
	gen     uint64
	epoch   uint64
	spec    *mcpvisor.ServerSpec
	session transport.Session
	started time.Time
	stats   *callStats

	limiter limiter

	// port owns it; set before anybody else sees it.
	port    *actor.PID
	desired *desiredSubscriptions
	// isStandby: it is a standby, and what it tells is told by the one in service.
	isStandby atomic.Bool
	// left: what its session has left behind is recorded once, and reported once.
	left sync.Once
}

// callStats counts calls over a whole registration.
type callStats struct{ total, failed, inFlight, queued atomic.Int64 }

func newIncarnation(server string, gen, epoch uint64, spec *mcpvisor.ServerSpec, tally *callStats, wishes *desiredSubscriptions, session transport.Session) *incarnation {
	return &incarnation{server: server, gen: gen, epoch: epoch, spec: spec, session: session, started: time.Now(), stats: tally, desired: wishes,
		limiter: limiter{maxInFlight: int64(spec.Limits.MaxInFlight), maxQueued: int64(max(spec.Limits.MaxQueued, 0))}}
}

// beginCall counts a call in, when it is its turn; clock is how long it may wait. A
// session that is dead lets nobody in: what comes later is no casualty of it.
func (i *incarnation) beginCall(ctx context.Context, clock time.Duration) *mcpvisor.Error {
	if isClosed(i.session.Dead()) {
		return i.unavailable()
	}
	if !i.limiter.tryAcquire() {
		i.stats.queued.Add(1)
		e := i.limiter.acquire(ctx, i.session.Dead(), clock)
		i.stats.queued.Add(-1)
		if e != nil {
			return e
		}
	}
	i.stats.total.Add(1)
	i.stats.inFlight.Add(1)
	return nil
}

// unavailable is for a call whose snapshot is older than the session's death.
func (i *incarnation) unavailable() *mcpvisor.Error {
	e := &mcpvisor.Error{Kind: mcpvisor.KindUnavailable, Outcome: mcpvisor.OutcomeNotSent, RetryAfter: startingHint}
	if died := i.session.Cause(); died != nil {
		e.Cause, e.Stderr = died, died.Stderr
	}
	return e
}

// endCall counts a call out.
func (i *incarnation) endCall(failed, lost bool) {
	i.stats.inFlight.Add(-1)
	if failed {
		i.stats.failed.Add(1)
	}
	i.limiter.release(lost)
}

// lostCalls is how many calls failed, or are about to, with the session.
func (i *incarnation) lostCalls() int { return i.limiter.lostCalls() }

// logLevel is what a request to a modern server carries.
func (i *incarnation) logLevel() string { return i.desired.logLevel() }
