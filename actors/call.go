package actors

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors/internal/facts"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
	"github.com/mcpvisor/mcpvisor/internal/retention"
	"github.com/mcpvisor/mcpvisor/internal/secret"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// Spent says how long a request took as a whole, and how long it waited in the queue of
// Limits.MaxInFlight. Both are 0 if the server was not ready.
type Spent struct{ Took, Queued time.Duration }

// Request sends one request to the incarnation in service: snapshot → incarnation →
// session, through no mailbox. timeout is the time without progress (0: the server's
// Timeouts.Call); Timeouts.CallTotal bounds the request as a whole. Each bounds the wait
// in the queue, too; only CallTotal is reduced by that wait. spent.Took is the time since
// r.Began, which is now if it is zero. The error is a *mcpvisor.Error with every field but
// Op, or [transport.ErrTask]; then call [View.TaskTaken]. With a [transport.TaskFailure], result is what the server said about the task.
// Request sets the times, the timeouts and the log level of r.
func (rt *Runtime) Request(ctx context.Context, v *View, r *transport.Request, timeout time.Duration) (result json.RawMessage, spent Spent, err error) {
	if v.State != supervisor.StateReady && (v.current == nil || !v.current.limiter.isOpenFor(r.Method)) {
		return nil, spent, v.Unavailable()
	}
	inc := v.current
	if r.Method == "tools/call" {
		if settings := inc.session.ToolSettings(); len(settings) > 0 || len(v.Spec.ToolSettings) > 0 {
			if r, timeout, err = applySettings(v, settings, r, timeout); err != nil {
				return nil, spent, inc.ownError(err)
			}
		}
	}
	r.Timeout, r.TotalTimeout = CallTimeouts(&v.Spec.Timeouts, timeout)
	r.LogLevel = inc.desired.LogLevel()
	if r.Caller != nil && r.Caller.LogLevel != "" {
		r.LogLevel = r.Caller.LogLevel
	}
	if r.Began.IsZero() {
		r.Began = time.Now()
	}
	began := r.Began
	queued, e := inc.beginCall(ctx, r)
	if e != nil {
		e.Server, e.Gen, e.Epoch = inc.server, inc.gen, inc.epoch
		spent.Took = time.Since(began)
		return nil, spent, e
	}
	if queued > 0 {
		r.Began = began.Add(queued)
		if r.TotalTimeout > 0 {
			r.TotalTimeout = max(r.TotalTimeout-queued, time.Millisecond)
		}
	}
	failed, lost := true, false // so that a panic on the way counts as a failure
	defer func() { inc.endCall(failed, lost) }()
	result, err = inc.session.Request(ctx, *r)
	spent.Queued, spent.Took = queued, time.Since(began)
	if err == nil || err == transport.ErrTask {
		if failed = false; err != nil {
			inc.following.Add(1)
		}
		return result, spent, err
	}
	switch e = inc.ownError(err); {
	case ended(e) && e.Outcome == mcpvisor.OutcomeNotSent:
		// Nothing was sent, so the call was not lost with the session.
		e.Kind, e.RetryAfter = mcpvisor.ErrUnavailable, startingRetryAfter
	case ended(e):
		lost = true
	case e.Kind == mcpvisor.ErrTimeout && e.Hint == "":
		e.Hint = timeoutHint(r, spent)
	}
	return result, spent, e
}

// applySettings returns a copy of a call of a tool as its server knows it: by its own name, and with the arguments of
// settings, which are those of its session. The timeout is that of the tool, unless the call has one.
func applySettings(v *View, settings catalog.Settings, r *transport.Request, timeout time.Duration) (*transport.Request, time.Duration, error) {
	if timeout == 0 {
		timeout = catalog.Settings(v.Spec.ToolSettings).Timeout(r.Target)
	}
	mapped := *r
	var err error
	if len(settings) > 0 {
		mapped.Target, mapped.Params, err = settings.MapCall(r.Target, r.Params)
	}
	return &mapped, timeout, err
}

// ended reports whether the session ended during a call.
func ended(e *mcpvisor.Error) bool {
	return e.Kind == mcpvisor.ErrCrashed || e.Kind == mcpvisor.ErrEnded
}

// timeoutHint says which of its timeouts ended a call. r has the timeouts as they were
// after the wait in the queue.
func timeoutHint(r *transport.Request, spent Spent) string {
	if r.TotalTimeout > 0 && (spent.Took-spent.Queued >= r.TotalTimeout || r.Timeout == 0) {
		return fmt.Sprintf("exceeded Timeouts.CallTotal (%v)", (r.TotalTimeout + spent.Queued).Round(time.Millisecond))
	}
	return fmt.Sprintf("no result or progress for %v; raise Timeouts.Call, or set WithTimeout for the call", r.Timeout.Round(time.Millisecond))
}

// shorter is the shorter of two timeouts; 0 means unbounded.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// CallTimeouts returns how long a call may take without progress (requested, or else
// Timeouts.Call), and as a whole; 0 means as long as its context.
func CallTimeouts(t *mcpvisor.Timeouts, requested time.Duration) (idle, total time.Duration) {
	idle = requested
	if idle == 0 {
		idle = t.Call
	}
	return max(idle, 0), max(t.CallTotal, 0)
}

// Unavailable explains why a server accepts no calls now, and when a call may succeed.
func (v *View) Unavailable() *mcpvisor.Error {
	e := &mcpvisor.Error{Server: v.Name, Gen: v.Gen, Epoch: v.Epoch, Kind: mcpvisor.ErrUnavailable, Outcome: mcpvisor.OutcomeNotSent}
	if v.Cause != nil {
		e.Cause, e.Stderr = v.Cause, v.Cause.Stderr
	}
	if v.replaced {
		e.RetryAfter, e.Cause = startingRetryAfter, errBeingReplaced
		return e
	}
	switch v.State {
	case supervisor.StateEvicted:
		e.Kind, e.Hint = mcpvisor.ErrEvicted, "fix the server, then call Restart or register it again"
		switch {
		case v.Cause != nil && v.Cause.Kind == supervisor.CauseFenced:
			e.Hint = fencedHint
		case v.Cause.Asked():
			e.Hint = "it is given up with its group, as the cause says; start the group"
		case v.Attempt > 0:
			e.Hint = "given up " + display.AfterRestarts(v.Attempt, v.Spec.Policy.MaxAttempts) + "; " + e.Hint
		}
	case supervisor.StateUnauthorized:
		e.Kind, e.Hint = mcpvisor.ErrAuthRequired, "set credentials, then unregister it and register it again"
		if required := (*mcpvisor.AuthRequired)(nil); errors.As(v.Cause, &required) {
			e.Hint = "" // the cause says what to do
		}
	case supervisor.StateStopped:
		e.Cause = ErrStopped
	case supervisor.StateAsleep, supervisor.StateResting:
		e.Cause = errAtRest
	case supervisor.StateWaiting:
		e.RetryAfter, e.Cause = startingRetryAfter, v.waitsError()
	case supervisor.StateStopping, supervisor.StateUnregistered:
		e.Kind, e.Cause = mcpvisor.ErrClosed, errors.New("the server is being unregistered")
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

// waitsError is the cause of a call to a server that waits for its turn.
func (v *View) waitsError() error {
	if names := v.waitsFor(); len(names) > 0 {
		return fmt.Errorf("it waits for %s", strings.Join(names, ", "))
	}
	return errors.New("it waits for its group; if that has failed, start the group")
}

// errBeingReplaced is the cause of a call that was not sent because its server ends for another one, or
// for a restart, once the calls in flight have ended.
var errBeingReplaced = errors.New("it is being replaced")

// startingRetryAfter is the RetryAfter of a server that is just starting: how long that
// takes is unknown.
const startingRetryAfter = 100 * time.Millisecond

// Ping sends a probe to a server that is ready. Without a deadline of ctx, Probe.Timeout
// bounds it.
func (rt *Runtime) Ping(ctx context.Context, v *View) error {
	if v.State != supervisor.StateReady {
		return v.Unavailable()
	}
	if _, has := ctx.Deadline(); !has {
		var cancel context.CancelFunc
		ctx, cancel = overdue.WithTimeoutCause(ctx, v.Spec.Probe.Timeout, errPingOverdue)
		defer cancel()
	}
	err := transport.Probe(ctx, v.current.session)
	if err == nil {
		return nil
	}
	e := v.current.ownError(err)
	if errors.Is(context.Cause(ctx), errPingOverdue) {
		e.Kind, e.Cause, e.Hint = mcpvisor.ErrTimeout, nil, fmt.Sprintf("no answer within Probe.Timeout (%v)", v.Spec.Probe.Timeout)
	}
	return e
}

// errPingOverdue is the cause of a context that ends with the default timeout of a ping.
var errPingOverdue = errors.New("the server did not answer the ping")

// AwaitReady waits until a server is ready, and returns its view. One that is at rest is woken. It fails when ctx ends,
// and when the server is unregistered, evicted, unauthorized or stopped.
func (rt *Runtime) AwaitReady(ctx context.Context, name string) (*View, error) {
	return rt.awaitReady(ctx, name, true, func(*View) bool { return false })
}

// AwaitLists is AwaitReady that returns as soon as it is known what the server offers, or offered last. It does not wake
// the server.
func (rt *Runtime) AwaitLists(ctx context.Context, name string) error {
	_, err := rt.awaitReady(ctx, name, false, func(v *View) bool {
		known, _ := v.Known()
		return known != nil
	})
	return err
}

// AwaitSettled is AwaitReady that also returns if the server does not run, because nothing wants it or an operator has
// stopped it. It does not wake the server.
func (rt *Runtime) AwaitSettled(ctx context.Context, name string) error {
	_, err := rt.awaitReady(ctx, name, false, func(v *View) bool { return v.atRest() || v.State == supervisor.StateStopped })
	return err
}

// Wake is AwaitReady that waits for one start of a server at rest: if that fails, it returns the view as it is then. The
// timeout ends the wait with ErrTimeout; 0 means only ctx does.
func (rt *Runtime) Wake(ctx context.Context, name string, timeout time.Duration) (*View, error) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = overdue.WithTimeoutCause(ctx, timeout, errWakeOverdue)
		defer cancel()
	}
	return rt.awaitReady(ctx, name, true, func(v *View) bool { return !v.rests && v.State != supervisor.StateReady })
}

// errWakeOverdue is the cause of a context that ends with the timeout of a call whose server is being woken.
var errWakeOverdue = errors.New("the server was at rest, and was not ready within the timeout of the call")

// awaitReady waits until a server is ready, or until enough reports true. If wanted, it wakes a server that is at rest.
func (rt *Runtime) awaitReady(ctx context.Context, name string, wanted bool, enough func(*View) bool) (*View, error) {
	var last <-chan time.Time
	for {
		s := rt.Snapshot()
		v := s.Server(name)
		switch {
		case v == nil && s.closed:
			return nil, ClosedError(name)
		case v == nil:
			return nil, &mcpvisor.Error{Server: name, Kind: mcpvisor.ErrUnknownServer, Outcome: mcpvisor.OutcomeNotSent}
		case v.State == supervisor.StateReady && v.current.session.Cause() == nil && !v.current.rested.Load():
			return v, nil
		case enough(v):
			return v, nil
		case v.replaced: // the next registration follows
		case v.State == supervisor.StateEvicted, v.State == supervisor.StateUnauthorized, v.State == supervisor.StateStopping, v.State == supervisor.StateStopped:
			return nil, v.Unavailable()
		}
		if wanted {
			rt.wake(v)
		}
		select {
		case <-s.Changed():
		case <-ctx.Done():
			if last == nil {
				last = overdue.Last(ctx)
			}
			select {
			case <-s.Changed(): // the server may have become ready while this process was stopped
				continue
			case <-last:
			}
			e := v.Unavailable()
			hint := "the server is " + string(v.State)
			if v.State == supervisor.StateWaiting {
				hint += ": " + e.Cause.Error()
			}
			e.Kind, e.Cause, e.Hint = mcpvisor.ErrCanceled, context.Cause(ctx), hint
			if e.Cause == errWakeOverdue {
				e.Kind = mcpvisor.ErrTimeout
			}
			return nil, e
		}
	}
}

// callFacts are the facts about the calls of all servers together. Safe for concurrent
// use.
type callFacts struct {
	started       time.Time // of the runtime; does not change
	recent        *facts.RecentCalls
	unknown       *facts.UnknownCalls
	room          *facts.ToolRoom // for tools with statistics of their own
	unknownServer atomic.Int64
}

// init begins the facts. records is Options.Records.
func (f *callFacts) init(records *Runtime) {
	f.started, f.recent, f.unknown, f.room = time.Now(), new(facts.RecentCalls), new(facts.UnknownCalls), new(facts.ToolRoom)
	if records != nil {
		f.recent, f.unknown, f.room = records.calls.recent, records.calls.unknown, records.calls.room
	}
}

// RecordCall records a call that has ended. v is the registration that it was for. listed:
// the server lists a tool of the name Target, so it may have statistics of its own. Of
// record, Seq, Server and Gen are set here, and Target and Error are made safe to show.
func (rt *Runtime) RecordCall(v *View, record *monitor.CallRecord, listed bool) {
	s := v.stats
	record.Server, record.Gen = v.Name, v.Gen
	if record.Began.IsZero() { // it was refused before it was sent or queued
		record.Began = time.Now()
	}
	if record.Kind != "" {
		s.countFailure(record)
	} else if record.ToolError {
		s.toolErrors.Add(1)
	}
	if record.Method == "tools/call" {
		name := display.Prefix(record.Target, retention.TargetBytes)
		tool := s.tools.Find(name)
		if tool == nil && listed {
			tool = s.tools.Of(name, rt.calls.room)
		}
		if tool != nil {
			tool.Add(record)
		}
	}
	if record.Error != "" {
		record.Error = shownError(record)
	}
	record.Target = shownTarget(record.Method, record.Target)
	rt.calls.recent.Add(record)
	if record.Kind == mcpvisor.ErrTimeout {
		rt.logTimeout(*record)
	}
	if record.Outcome == mcpvisor.OutcomeUnknown {
		rt.calls.unknown.Add(record)
	}
}

// shownTarget returns the target of a request as operators see it: one line of at most 256 bytes, without
// the secrets in the URI of a resource. It is redacted before it is cut, so that no part of a secret stays.
func shownTarget(method, target string) string {
	if strings.HasPrefix(method, "tasks/") { // the id of a task may be all that a server asks for
		return ""
	}
	if strings.HasPrefix(method, "resources/") {
		target = secret.RedactURI(target)
	}
	target = display.Prefix(target, retention.TargetBytes)
	for i := range len(target) {
		if target[i] < ' ' || target[i] > '~' {
			return display.Prefix(display.Line(target), retention.TargetBytes) // U+FFFD may be longer than what it replaces
		}
	}
	return target
}

// shownError returns the error of a call as operators see it: one line of at most 300 bytes. Of a
// resource, it shows the URI as shownTarget does, because servers repeat the URI in their errors.
func shownError(record *monitor.CallRecord) string {
	text := record.Error
	if strings.HasPrefix(record.Method, "resources/") && record.Target != "" {
		text = strings.ReplaceAll(text, record.Target, shownTarget(record.Method, record.Target))
	}
	text = display.Line(display.Prefix(text, 4*retention.CallErrorBytes))
	return strings.Clone(display.Prefix(strings.TrimSpace(text), retention.CallErrorBytes)) // the record keeps no longer text alive
}

// countFailure counts a call that has failed.
func (s *registrationStats) countFailure(record *monitor.CallRecord) {
	switch record.Outcome {
	case mcpvisor.OutcomeNotSent:
		s.refused.Add(record.Kind)
		return
	case mcpvisor.OutcomeUnknown:
		s.unknown.Add(1)
	default:
	}
	s.failed.Add(record.Kind)
}

// RecordUnknownServer counts a call that named no registered server.
func (rt *Runtime) RecordUnknownServer() { rt.calls.unknownServer.Add(1) }

// RecentCalls returns the calls with a higher Seq than after that have ended, oldest first,
// and how many of these are no longer kept.
func (rt *Runtime) RecentCalls(after uint64) (records []monitor.CallRecord, missed uint64) {
	return rt.calls.recent.After(after)
}

// UnknownCalls returns the last calls of unknown outcome, oldest first.
func (rt *Runtime) UnknownCalls() []monitor.CallRecord { return rt.calls.unknown.Records() }

// ToolStats returns the statistics of the tools of a registration, by name.
func (v *View) ToolStats() []monitor.ToolStats { return v.stats.tools.Stats(v.Name) }

// Stats returns the facts about the runtime as a whole.
func (rt *Runtime) Stats() monitor.ClientStats {
	last, missed := rt.hub.Stats()
	return monitor.ClientStats{Started: rt.calls.started, Events: last, MissedEvents: missed, Calls: rt.calls.recent.Last(),
		UnknownServer: rt.calls.unknownServer.Load(), StaleMessages: rt.Stale(), ManagerRestarts: max(rt.managers.Load(), 1) - 1}
}

// statsOf are the counts of one registration. The manager makes them.
func (rt *Runtime) statsOf(gen uint64) *registrationStats {
	if s, ok := rt.stats.Load(gen); ok {
		return s.(*registrationStats)
	}
	return newRegistrationStats() // the registration has ended
}

// releaseStats forgets the counts of a registration that has ended.
func (rt *Runtime) releaseStats(gen uint64) {
	if s, ok := rt.stats.LoadAndDelete(gen); ok && !s.(*registrationStats).shared {
		s.(*registrationStats).tools.Release(rt.calls.room)
	}
}

// registrationStats are the counts of one registration, over all its incarnations. The
// manager makes them, and views, incarnations and calls share them. Safe for concurrent
// use.
type registrationStats struct {
	registered time.Time // does not change
	*requestStats
	shared       bool // requestStats are those of the server that this one is a copy of; does not change
	incarnations facts.Incarnations
	steps        steps
	// tasksRecovered and tasksLost count tasks of calls over the end of their server.
	tasksRecovered, tasksLost atomic.Int64
	// taskTurns paces the requests about tasks.
	taskTurns *rate.Limiter
	taskQueue chan struct{} // has an element of the follower whose turn is next
}

// requestStats are the counts of the requests to a server, those to its copies included.
type requestStats struct {
	calls callStats
	tools facts.Tools
	// refused counts calls of which nothing was sent, failed all others that failed;
	// unknown those of the latter whose outcome is unknown.
	refused, failed facts.KindCounts
	unknown         atomic.Int64
	// toolErrors counts results with isError.
	toolErrors atomic.Int64
}

func newRegistrationStats() *registrationStats {
	return &registrationStats{requestStats: new(requestStats), taskTurns: rate.NewLimiter(maxTaskRate, maxTaskBurst), taskQueue: make(chan struct{}, 1)}
}

// newStats returns the counts of a new registration.
func (rt *Runtime) newStats(name string) *registrationStats {
	s := newRegistrationStats()
	if rt.opts.Records != nil {
		if v := rt.opts.Records.Snapshot().Server(name); v != nil {
			s.requestStats, s.shared = v.stats.requestStats, true
		}
	}
	return s
}

// totals are the counts as users see them. What the lifecycle counts is in the view.
func (s *registrationStats) totals() (t mcpvisor.Totals) {
	s.incarnations.AddTo(&t)
	t.Unknown, t.TasksRecovered, t.TasksLost = s.unknown.Load(), s.tasksRecovered.Load(), s.tasksLost.Load()
	t.ToolErrors = s.toolErrors.Load()
	t.Refused, t.Failed = s.refused.Counts(), s.failed.Counts()
	return t
}

// callStats counts the calls of a registration, over all its incarnations. Safe for
// concurrent use.
//
// The order of the changes in begin and end, and of the reads in counts, makes the
// numbers fit each other: a call that total has is in flight, or has ended and is in
// failed if it failed.
type callStats struct{ total, failed, inFlight, queued atomic.Int64 }

// begin counts a call that is sent to the server.
func (s *callStats) begin() {
	s.inFlight.Add(1)
	s.total.Add(1)
}

// end counts the end of a call.
func (s *callStats) end(failed bool) {
	if failed {
		s.failed.Add(1)
	}
	s.inFlight.Add(-1)
}

// counts are the numbers as users see them.
func (s *callStats) counts() (c mcpvisor.CallCounts) {
	c.Total = s.total.Load()
	c.InFlight, c.Queued = s.inFlight.Load(), s.queued.Load()
	c.Failed = s.failed.Load()
	return c
}

// CallsInFlight returns the requests of all servers that have not ended, the oldest first.
func (s *Snapshot) CallsInFlight() []monitor.CallInFlight {
	var all []monitor.CallInFlight
	for v := range s.all() {
		for _, inc := range []*incarnation{v.current, v.standby, v.ending} {
			if inc != nil {
				all = inc.appendInFlight(all)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b monitor.CallInFlight) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Server, b.Server))
	})
	return all
}

// appendInFlight appends the requests of one incarnation: those that its session has not
// ended, and those in the queue.
func (i *incarnation) appendInFlight(all []monitor.CallInFlight) []monitor.CallInFlight {
	add := func(requests []transport.InFlight, queued bool) {
		for _, r := range requests {
			if !isCallersMethod(r.Method) {
				r.ID = 0
			}
			all = append(all, monitor.CallInFlight{Server: i.server, Gen: i.gen, Epoch: i.epoch,
				Method: r.Method, Target: shownTarget(r.Method, r.Target), Began: r.Began, Queued: queued, ID: r.ID})
		}
	}
	add(i.session.InFlight(), false)
	add(i.limiter.waitingCalls(), true)
	return all
}

// CancelCall ends a call of [Snapshot.CallsInFlight]. It reports false if that is not in flight.
func (s *Snapshot) CancelCall(call monitor.CallInFlight) bool {
	v := s.Server(call.Server)
	if v == nil || call.ID == 0 {
		return false
	}
	for _, inc := range []*incarnation{v.current, v.standby, v.ending} {
		if inc == nil {
			continue
		}
		for _, c := range inc.appendInFlight(nil) {
			if c.Began.Equal(call.Began) {
				c.Began = call.Began // equal times can differ in their zones
			}
			switch {
			case c != call:
			case c.Queued:
				return inc.limiter.cancel(c.ID)
			default:
				return inc.session.CancelRequest(c.ID)
			}
		}
	}
	return false
}

// Stderr returns the kept lines of stderr of the latest incarnation.
func (v *View) Stderr() (s monitor.ServerStderr) {
	if v.current == nil {
		return s
	}
	s = v.current.session.StderrTail()
	s.Epoch, s.Ended = v.current.epoch, isClosed(v.current.session.Released())
	return s
}

const (
	// longCall is the age at which a call that has not ended is logged.
	longCall = 5 * time.Second
	// maxLoggedCalls is how many such calls one examination logs; more are counted.
	maxLoggedCalls = 10
)

// longCalls logs each call that lasts longCall, while it runs. One timer serves all calls
// of a client: it runs while there are any, and each time it fires the calls in flight are
// examined. Safe for concurrent use.
type longCalls struct {
	rt      *Runtime
	enabled bool // the log level includes the lines
	// armed: the timer will fire. A call counts itself in flight before it looks at armed,
	// and the timer clears armed before it looks for calls, so none is missed.
	armed atomic.Bool

	mu       sync.Mutex
	timer    *time.Timer
	examined time.Time // calls that began until then were logged, or have ended
	stopped  bool
}

// begin is called for each call that was counted in callStats.
func (l *longCalls) begin() {
	if l.enabled && !l.armed.Load() {
		l.arm(longCall)
	}
}

func (l *longCalls) arm(after time.Duration) {
	if !l.armed.CompareAndSwap(false, true) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.stopped:
	case l.timer == nil:
		l.timer = time.AfterFunc(after, l.examine)
	default:
		l.timer.Reset(after)
	}
}

// stop stops the timer for good.
func (l *longCalls) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped = true; l.timer != nil {
		l.timer.Stop()
	}
}

// examine logs the calls in flight that have become long since the last time. The goroutine
// of the timer runs it; there is one at a time.
func (l *longCalls) examine() {
	l.armed.Store(false)
	snapshot, now := l.rt.Snapshot(), time.Now()
	var long []monitor.CallInFlight
	l.mu.Lock()
	until := now.Add(-longCall)
	next := now // when the oldest of the other calls began
	for _, call := range snapshot.CallsInFlight() {
		switch {
		case !isCallersMethod(call.Method), !call.Began.After(l.examined):
		case !call.Began.After(until):
			long = append(long, call)
		case call.Began.Before(next):
			next = call.Began
		}
	}
	l.examined = until
	l.mu.Unlock()
	l.log(long, now)
	for v := range snapshot.all() {
		if c := v.stats.calls.counts(); c.InFlight+c.Queued > 0 {
			l.arm(max(next.Add(longCall).Sub(now), time.Millisecond))
			return
		}
	}
}

// log writes one line for each call, and one for those beyond maxLoggedCalls.
func (l *longCalls) log(long []monitor.CallInFlight, now time.Time) {
	for _, call := range long[:min(len(long), maxLoggedCalls)] {
		l.rt.logger.Line(func(log *zerolog.Logger) {
			log.Warn().Str("server", call.Server).Uint64("epoch", call.Epoch).Str("method", call.Method).Str("target", call.Target).
				Dur("age", now.Sub(call.Began)).Bool("queued", call.Queued).Msg("a call takes long")
		})
	}
	if more := len(long) - maxLoggedCalls; more > 0 {
		l.rt.logger.Line(func(log *zerolog.Logger) { log.Warn().Int("calls", more).Msg("further calls take long") })
	}
}

// isCallersMethod reports whether requests of a method are made by callers, and not by the
// client itself.
func isCallersMethod(method string) bool {
	switch method {
	case "tools/call", "resources/read", "prompts/get", "completion/complete":
		return true
	}
	return false
}

// logTimeout logs a call that one of its timeouts has ended.
func (rt *Runtime) logTimeout(r monitor.CallRecord) {
	rt.logger.Line(func(log *zerolog.Logger) {
		log.Warn().Str("server", r.Server).Uint64("epoch", r.Epoch).Str("method", r.Method).Str("target", r.Target).
			Dur("took", r.Took).Str("outcome", string(r.Outcome)).Msg("a call has timed out")
	})
}

// Monitor returns a context that ends with the incarnation in service, with its cause, or with ctx.
func (v *View) Monitor(ctx context.Context) (context.Context, error) {
	if v.State != supervisor.StateReady {
		return nil, v.Unavailable()
	}
	session := v.current.session
	monitored, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-session.Dead():
			cancel(session.Cause())
		case <-ctx.Done():
			cancel(nil)
		}
	}()
	return monitored, nil
}
