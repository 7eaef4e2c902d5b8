package actors

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors/internal/subscription"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
	"github.com/mcpvisor/mcpvisor/internal/waitqueue"
	"github.com/mcpvisor/mcpvisor/transport"
)

// incarnation is one life of a server: its session, and the calls on it. It dies with
// its session. A call in flight watches nothing else; one that waits is also told when the limiter closes. Safe for
// concurrent use.
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
	long    *longCalls            // of the runtime
	port    *actor.PID            // the actor that owns the session

	// startTook is how long it took until all lists were read. Owned by the supervising
	// actor.
	startTook time.Duration

	// changed are the catalog.Lists with an announced change that no reading has taken up. Any goroutine may add to it;
	// see refresher.markChanged. readings are those whose lists are not published.
	changed  atomic.Uint32
	readings atomic.Int32

	limiter   limiter
	tasks     taskWatches
	following atomic.Int64  // callers that wait for tasks
	idle      chan struct{} // closed after drain, when the last call and the last wait for a task have ended
	isIdle    sync.Once
	rested    atomic.Bool // it takes no more calls, because nothing used it: its server is going to sleep
	// isStandby: the events that its server sends are dropped, because the server in
	// service sends the same. The supervising actor clears it at a takeover.
	isStandby atomic.Bool
	recorded  sync.Once // what the session has left behind; see Runtime.recordLeft
}

// newIncarnation makes an incarnation of a registration, with a session that is not
// open yet.
func newIncarnation(s *supervisingActor, epoch uint64, standby bool) *incarnation {
	inc := &incarnation{server: s.name, gen: s.gen, epoch: epoch, spec: s.spec, stats: s.stats, long: &s.rt.longCalls,
		session: s.dialer.NewSession(), started: time.Now(), desired: s.rt.desiredOf(s.gen)}
	inc.session.SetEpoch(epoch)
	inc.limiter.maxInFlight = min(int64(s.spec.Limits.MaxInFlight), noMoreCalls-1)
	inc.limiter.closing, inc.idle = make(chan struct{}), make(chan struct{})
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
	switch {
	case i.limiter.tryAcquire():
	case i.limiter.isOpenFor(r.Method):
		i.limiter.counts.Add(1)
	default:
		began := time.Now()
		i.stats.calls.queued.Add(1)
		i.long.begin()
		call := transport.InFlight{Method: r.Method, Target: r.Target, Began: r.Began}
		e := i.limiter.acquire(ctx, i.session.Dead(), call, shorter(r.Timeout, r.TotalTimeout))
		i.stats.calls.queued.Add(-1)
		if e == nil && r.Waited != nil {
			if err := r.Waited(); err != nil {
				i.limiter.release(false)
				e = i.ownError(err)
			}
		}
		if e != nil {
			i.checkIdle() // it may have had a place for a moment
			return 0, e
		}
		queued = time.Since(began)
	}
	i.stats.calls.begin()
	i.long.begin()
	return queued, nil
}

// endCall ends the count of a call in flight. lost: it failed with the session.
func (i *incarnation) endCall(failed, lost bool) {
	i.stats.calls.end(failed)
	i.limiter.release(lost)
	i.checkIdle()
}

// drain admits no further calls, except those about tasks. The calls in the queue fail: they were not sent.
func (i *incarnation) drain() {
	if i.limiter.close() {
		i.checkIdle()
	}
}

// isListed reports whether the published lists are those that the server has announced.
func (i *incarnation) isListed() bool { return i.changed.Load() == 0 && i.readings.Load() == 0 }

// rest admits no further calls, if none is in flight and no task is followed.
func (i *incarnation) rest() bool {
	if i.following.Load() > 0 {
		return false
	}
	i.rested.Store(true)
	if i.limiter.closeUnused() {
		return true
	}
	i.rested.Store(false)
	return false
}

// checkIdle closes idle if there is nothing left to wait for. It is called after each change that may
// lead to that. A call that becomes a task is followed before it is no longer in flight.
func (i *incarnation) checkIdle() {
	if n := i.limiter.counts.Load(); n&noMoreCalls != 0 && n&(noMoreCalls-1) == 0 && i.following.Load() == 0 {
		i.isIdle.Do(func() { close(i.idle) })
	}
}

// ownError returns an error about a request of the incarnation for one caller: several may
// have received the same one.
func (i *incarnation) ownError(err error) *mcpvisor.Error {
	e := &mcpvisor.Error{Kind: mcpvisor.ErrProtocol, Outcome: mcpvisor.OutcomeUnknown, Cause: err}
	if shared := (*mcpvisor.Error)(nil); errors.As(err, &shared) {
		*e = *shared
	}
	e.Server, e.Gen, e.Epoch = i.server, i.gen, i.epoch
	return e
}

// unavailable is the error of a call that was started with a snapshot older than the
// death of the session.
func (i *incarnation) unavailable() *mcpvisor.Error {
	e := &mcpvisor.Error{Server: i.server, Gen: i.gen, Epoch: i.epoch, Kind: mcpvisor.ErrUnavailable, Outcome: mcpvisor.OutcomeNotSent, RetryAfter: startingRetryAfter}
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
	e := &mcpvisor.Error{Server: i.server, Gen: i.gen, Epoch: i.epoch, Kind: mcpvisor.ErrProtocol,
		Outcome: mcpvisor.OutcomeAnswered, Cause: err}
	switch inner := (*mcpvisor.Error)(nil); {
	case errors.As(err, &inner):
		e.Kind, e.Outcome, e.RetryAfter, e.Stderr = inner.Kind, inner.Outcome, inner.RetryAfter, inner.Stderr
		if e.Kind == mcpvisor.ErrCanceled { // by the timeout of the port: no caller can
			e.Kind = mcpvisor.ErrTimeout
		}
	case errors.Is(err, context.DeadlineExceeded):
		e.Kind, e.Outcome = mcpvisor.ErrTimeout, mcpvisor.OutcomeUnknown
	}
	return e
}

// overloadedRetryAfter is the RetryAfter of a call that finds the queue full: when there
// is room is unknown. Without it, a caller that obeys RetryAfter would try in a tight
// loop.
const overloadedRetryAfter = 100 * time.Millisecond

// limiter bounds the calls in flight on one incarnation. Further calls wait in a
// bounded queue, clients in turn; beyond that they fail. While no call waits,
// a call costs two changes of one word and no lock.
type limiter struct {
	maxInFlight, maxQueued int64 // set before use, and never changed

	// counts holds the calls in flight in its low half and the calls that failed with
	// the session in its high half: in one word, so that their sum is always consistent.
	// noMoreCalls is a bit of the low half: with it, no number of calls is below maxInFlight.
	counts  atomic.Int64
	waiting atomic.Int64  // len(queue), for goroutines that do not hold mu
	closing chan struct{} // closed by close

	mu     sync.Mutex
	queue  waitqueue.Queue[queuedCall] // guarded by mu
	lastID int64                       // of a call in the queue; guarded by mu
}

// queuedCall is a call in the queue of a limiter. cancel ends its wait.
type queuedCall struct {
	transport.InFlight
	cancel context.CancelCauseFunc
}

// oneLostCall is one call in the high half of counts.
const oneLostCall = int64(1) << 32

// noMoreCalls is the bit in counts after close.
const noMoreCalls = int64(1) << 31

// close admits no further calls. It reports false if it was called before.
func (l *limiter) close() bool {
	first := l.counts.Or(noMoreCalls)&noMoreCalls == 0
	if first {
		close(l.closing)
	}
	return first
}

// closeUnused is close if no call is in flight or waits.
func (l *limiter) closeUnused() bool {
	n := l.counts.Load()
	if n&(oneLostCall-1) != 0 || l.waiting.Load() != 0 || !l.counts.CompareAndSwap(n, n|noMoreCalls) {
		return false
	}
	close(l.closing)
	return true
}

// isOpenFor reports whether a request is admitted after close: one about a task, for which a drain waits.
func (l *limiter) isOpenFor(method string) bool {
	return isClosed(l.closing) && strings.HasPrefix(method, "tasks/")
}

// tryAcquire admits a call if there is room and no call waits.
func (l *limiter) tryAcquire() bool {
	return l.waiting.Load() == 0 && l.increment()
}

// increment admits a call if there is room. It never exceeds the limit, not even for
// a moment: a call that ends in that moment would find no room for the waiting ones, and
// no other call would admit them.
func (l *limiter) increment() bool {
	for {
		n := l.counts.Load()
		if n&(oneLostCall-1) >= l.maxInFlight {
			return false
		}
		if l.counts.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release ends a call and admits the next one. lost: the call failed with the session.
func (l *limiter) release(lost bool) {
	if lost {
		l.counts.Add(oneLostCall - 1)
	} else {
		l.counts.Add(-1)
	}
	if l.waiting.Load() > 0 {
		l.admitWaiting()
	}
}

// lostCalls is how many calls failed with the session, or are about to.
func (l *limiter) lostCalls() int {
	n := l.counts.Load()
	return int(n>>32 + n&(noMoreCalls-1))
}

// admitWaiting admits calls from the head of the queue while there is room. A call that
// ends makes room before it looks at the queue; a call that queues looks for room after
// that. So one of the two sees the other.
func (l *limiter) admitWaiting() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue.Admit(func(queuedCall) bool {
		if !l.increment() {
			return false
		}
		l.waiting.Add(-1)
		return true
	})
}

// waitingCalls returns the calls in the queue, the next one first.
func (l *limiter) waitingCalls() (all []transport.InFlight) {
	if l.waiting.Load() == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for call := range l.queue.All() {
		all = append(all, call.InFlight)
	}
	return all
}

// cancel ends a call in the queue for an operator. It reports false if no call in it has the id.
func (l *limiter) cancel(id int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for call := range l.queue.All() {
		if call.ID == id {
			call.cancel(transport.ErrByOperator)
			return true
		}
	}
	return false
}

// acquire waits until the call is admitted. It fails with ErrOverloaded if the queue is
// full and no client has more calls in it, ErrTimeout after timeout (0: unbounded), ErrCanceled with ctx and by cancel, and
// ErrUnavailable if the session dies. Nothing was sent in any of these cases.
func (l *limiter) acquire(ctx context.Context, dead <-chan struct{}, call transport.InFlight, timeout time.Duration) *mcpvisor.Error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l.mu.Lock()
	l.lastID++
	call.ID = l.lastID
	waiter := l.queue.AddFor(waitqueue.ClientOf(ctx), queuedCall{call, cancel})
	if int64(l.queue.Len()) > l.maxQueued && !isClosed(l.closing) {
		l.queue.RefuseLast()
	} else {
		l.waiting.Add(1)
	}
	l.mu.Unlock()
	l.admitWaiting()

	var late chan struct{}
	if timeout > 0 {
		late = make(chan struct{})
		defer overdue.AfterFunc(timeout, func() { close(late) }).Stop()
	}
	e := &mcpvisor.Error{Outcome: mcpvisor.OutcomeNotSent}
	select {
	case <-waiter.Admitted():
		if context.Cause(ctx) != transport.ErrByOperator {
			return nil
		}
		e.Kind, e.Cause = mcpvisor.ErrCanceled, transport.ErrByOperator // it was canceled before
	case <-waiter.Refused():
		e.Kind, e.RetryAfter, e.Hint = mcpvisor.ErrOverloaded, overloadedRetryAfter, "wait for some of them to end, or raise Limits.MaxInFlight or Limits.MaxQueued"
		return e
	case <-ctx.Done():
		e.Kind, e.Cause = mcpvisor.ErrCanceled, context.Cause(ctx)
	case <-dead:
		e.Kind, e.RetryAfter = mcpvisor.ErrUnavailable, startingRetryAfter
	case <-l.closing:
		e.Kind, e.RetryAfter, e.Cause = mcpvisor.ErrUnavailable, startingRetryAfter, errBeingReplaced
	case <-late:
		e.Kind, e.Hint = mcpvisor.ErrTimeout, "it waited behind other calls; raise Limits.MaxInFlight if the server can take more at once"
	}
	l.mu.Lock()
	left := l.queue.Remove(waiter)
	if left {
		l.waiting.Add(-1)
	}
	l.mu.Unlock()
	if !left && !isClosed(waiter.Refused()) { // the call was admitted at the same moment
		l.release(false)
	}
	return e
}
