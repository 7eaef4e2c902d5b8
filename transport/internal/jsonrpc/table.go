package jsonrpc

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/overdue"
	"github.com/mcpvisor/mcpvisor/transport"
)

// Table holds the requests in flight of one session, for pipes and for HTTP. One timer
// serves all their deadlines. The zero Table is empty and ready.
//
// An entry is in the table from before its request is sent until it is answered, expires,
// is abandoned by its caller, or the session ends. The code that removes it decides
// how the request ended. An answer that finds no entry is late and is discarded.
//
// Mu is exported because a session may guard state of its own with it: a session over
// pipes queues a line and adds its entry in one step.
type Table struct {
	// IDs assigns the ids of requests.
	IDs RequestIDs

	// Mu guards all fields below, and the entries in Open.
	Mu sync.Mutex
	// Open holds the entries by their ids.
	Open Entries

	answerers answerers // which handlers calls have had

	lastKey int64         // last key of an entry that is not a request: negative, counting down
	ended   error         // why the session ended; nil: it has not
	timer   DeadlineTimer // fires at the earliest deadline, or before
}

// Entry is one request in flight. The mutex of the table guards it, except for ID, Progress
// and Owner, which do not change while the entry is in the table.
type Entry struct {
	// ID is the id of the request. It is negative for an HTTP exchange that carries no
	// request of this client, such as a notification.
	ID int64
	// What describes the request in [Table.InFlight]; Method is empty for what is not listed.
	What     transport.InFlight
	Deadline time.Time // of Clocks; zero: no deadline
	// Hastened is when the request ends before its deadline; zero: HastenLocked was not
	// called, or the server has shown since that it works on the request.
	Hastened time.Time
	Clocks   Clocks
	Progress *ProgressQueue // nil: the caller wants no reports
	// Handlers answer what the server asks for because of the request; nil: those of the client.
	Handlers *transport.CallHandlers
	// Canceled: an operator has ended the request, and Expire is called for that.
	Canceled bool
	// Stopped: the sweep ignores the deadline, because it has passed or was stopped.
	Stopped bool
	Owner   Owner
}

// Owner is the request behind an entry. The table calls all methods with its mutex held.
type Owner interface {
	// InFlight reports whether the server may have received the request.
	InFlight() bool
	// Expire ends the request, because its deadline has passed or it was canceled. It may remove the entry.
	// after, if not nil, is called when the mutex is released.
	Expire() (after func())
}

// AddLocked adds a request and arms the timer for its deadline. Its id must be free. The
// caller holds Mu and has checked Ended.
func (t *Table) AddLocked(e *Entry) {
	t.Open.Add(e)
	if e.Handlers != nil {
		t.answerers.several = true
	}
	if e.Progress != nil && e.Progress.log != nil {
		t.answerers.logs = true
	}
	if !e.Deadline.IsZero() {
		t.armLocked(e.Deadline)
	}
}

// Add starts the clocks of an exchange, assigns its id and adds it: a request gets a
// request id, anything else a negative number. If the session has ended, Add returns why
// and adds nothing.
func (t *Table) Add(e *Entry, request bool, r *transport.Request) (ended error) {
	e.Start(r)
	t.Mu.Lock()
	defer t.Mu.Unlock()
	e.ID = t.nextIDLocked(request)
	if t.ended == nil {
		t.AddLocked(e)
	}
	return t.ended
}

// Start starts the clocks of the entry of a request that is about to be added.
func (e *Entry) Start(r *transport.Request) {
	began := r.Began
	if began.IsZero() {
		began = time.Now()
	}
	from := began
	if !r.RoundBegan.IsZero() {
		from = r.RoundBegan
	}
	e.Deadline = e.Clocks.Start(r, from)
	if r.Caller != nil {
		e.Handlers = r.Caller.Handlers
	}
	if r.Stream == nil {
		e.What = transport.InFlight{Method: r.Method, Target: r.Target, Began: began}
	}
}

// InFlight returns the requests in the table, in no order.
func (t *Table) InFlight() (all []transport.InFlight) {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	for e := range t.Open.All() {
		if what := e.What; what.Method != "" {
			what.ID = e.ID
			all = append(all, what)
		}
	}
	return all
}

// Cancel implements CancelRequest of [transport.Session].
func (t *Table) Cancel(id int64) bool {
	t.Mu.Lock()
	e := t.Open.Get(id)
	if e == nil || e.What.Method == "" || e.Stopped || t.ended != nil {
		t.Mu.Unlock()
		return false
	}
	e.Canceled, e.Stopped = true, true
	after := e.Owner.Expire()
	t.Mu.Unlock()
	if after != nil {
		after()
	}
	return true
}

// nextIDLocked returns an id that no entry has. Ids wrap around, and a request that has
// lasted that long keeps its id.
func (t *Table) nextIDLocked(request bool) int64 {
	if !request {
		t.lastKey--
		return t.lastKey
	}
	for {
		if id, used := t.IDs.Next(); !used || t.Open.Get(id) == nil {
			return id
		}
	}
}

// HastenLocked makes an entry expire at a time, unless its deadline is earlier. Progress,
// and a handler that begins to work for the call, undo that. The deadline stays. The caller
// holds Mu.
func (t *Table) HastenLocked(e *Entry, at time.Time) {
	if !e.Deadline.IsZero() && e.Deadline.Before(at) || t.ended != nil {
		return
	}
	e.Hastened = at
	t.armLocked(at)
}

// armLocked makes the timer fire at a deadline, or earlier.
func (t *Table) armLocked(deadline time.Time) {
	if t.timer.OnFire == nil {
		t.timer.OnFire = t.sweep
	}
	t.timer.Set(deadline)
}

// Remove removes an entry if it is in the table. Another entry that has its id by now
// stays.
func (t *Table) Remove(e *Entry) {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	if t.Open.Get(e.ID) == e {
		t.Open.Delete(e.ID)
	}
}

// StopClock makes the sweep ignore the deadline of an entry, and InFlight the entry: its
// request has its answer.
func (t *Table) StopClock(e *Entry) {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	e.Stopped, e.What = true, transport.InFlight{}
}

// End records that the session has ended, and then calls end for each entry, without
// the mutex. The entries stay in the table until they are removed. From then on Add adds
// nothing.
func (t *Table) End(cause error, end func(*Entry)) {
	t.Mu.Lock()
	t.EndLocked(cause)
	open := slices.Collect(t.Open.All())
	t.Mu.Unlock()
	for _, e := range open {
		end(e)
	}
}

// EndLocked records that the session has ended. No deadline expires from now on, and Add
// refuses entries. The entries stay; the caller, who holds Mu, ends them.
func (t *Table) EndLocked(cause error) {
	t.ended = cause
	t.timer.Stop()
}

// Ended returns why the session has ended; nil if it has not. The caller holds Mu.
func (t *Table) Ended() error { return t.ended }

// sweep expires the entries whose deadlines have passed, and arms the timer for the earliest
// of the others. The goroutine of the timer runs it.
func (t *Table) sweep() {
	now := time.Now()
	var after []func()
	t.Mu.Lock()
	t.timer.Fired()
	if t.ended != nil {
		t.Mu.Unlock()
		return
	}
	var next time.Time
	for e := range t.Open.All() {
		end := e.Deadline
		if !e.Hastened.IsZero() {
			end = e.Hastened
		}
		switch {
		case end.IsZero(), e.Stopped:
		case !end.After(now):
			e.Stopped = true
			if f := e.Owner.Expire(); f != nil {
				after = append(after, f)
			}
		case next.IsZero() || end.Before(next):
			next = end
		}
	}
	t.timer.Rearm(now, next)
	t.Mu.Unlock()
	for _, f := range after {
		f()
	}
}

// Progressed restarts the idle clock of the request that a progress notification names. It
// returns the progress queue of the request; nil if the caller wants no reports. found is
// false if no request in flight has the id.
func (t *Table) Progressed(id int64) (to *ProgressQueue, found bool) {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	e := t.Open.Get(id)
	if e == nil || id <= 0 || !e.Owner.InFlight() {
		return nil, false
	}
	e.Hastened = time.Time{}
	if !e.Deadline.IsZero() {
		e.Deadline = e.Clocks.Progressed(time.Now())
	}
	return e.Progress, true
}

// CountRequest counts one server request against the call it belongs to. call is the id of
// the call; with 0 or less the call is not known, and the request counts against every call
// in flight. CountRequest reports false if each of these calls has had MaxRequestsPerCall.
func (t *Table) CountRequest(call int64) bool {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	calls := t.callsLocked(call)
	allowed := len(calls) == 0
	for _, e := range calls {
		allowed = e.Clocks.CountRequest() || allowed
	}
	return allowed
}

// PauseClocks stops the idle clocks of the calls that a server request may belong to, while
// a handler answers it; call is as in CountRequest. restart ends the pause; answered says
// whether the handler returned a result.
func (t *Table) PauseClocks(call int64) (restart func(answered bool)) {
	now := time.Now()
	t.Mu.Lock()
	defer t.Mu.Unlock()
	calls := t.callsLocked(call)
	ids := make([]int64, len(calls)) // sessions over pipes reuse an entry for another request
	for i, e := range calls {
		ids[i] = e.ID
		e.Hastened, e.Deadline = time.Time{}, e.Clocks.Pause(e.Deadline, now)
	}
	return func(answered bool) {
		now := time.Now()
		t.Mu.Lock()
		defer t.Mu.Unlock()
		for i, e := range calls {
			if t.Open.Get(ids[i]) != e || !e.Clocks.Paused() {
				continue
			}
			if e.Deadline = e.Clocks.Resume(answered, now); !e.Deadline.IsZero() && t.ended == nil {
				t.timer.Set(e.Deadline)
			}
		}
	}
}

// callsLocked returns the entries of the calls that a server request may belong to; call is
// as in CountRequest.
func (t *Table) callsLocked(call int64) (calls []*Entry) {
	if call > 0 {
		if e := t.Open.Get(call); e != nil && e.Owner.InFlight() {
			calls = append(calls, e)
		}
		return calls
	}
	for e := range t.Open.All() {
		if e.ID > 0 && e.Owner.InFlight() {
			calls = append(calls, e)
		}
	}
	return calls
}

// Entries holds the requests in flight by their ids. The zero value is empty and ready. The
// mutex of the Table guards it.
//
// Ids count up, so those in flight at a time are close together, and most entries lie in the slot that the
// last bits of their id name: with a map alone a call costs 2 to 3 % more.
type Entries struct {
	slots  [128]*Entry
	others map[int64]*Entry // those whose slot was taken; nil without any, because a map does not shrink
}

// slot is where the entry with this id lies, or another one with the same last bits.
func (t *Entries) slot(id int64) **Entry { return &t.slots[id&int64(len(t.slots)-1)] }

// Get returns the entry with this id; nil if it is not there.
func (t *Entries) Get(id int64) *Entry {
	if e := *t.slot(id); e != nil && e.ID == id {
		return e
	}
	return t.others[id]
}

// Add adds an entry. Its id must be free.
func (t *Entries) Add(e *Entry) {
	slot := t.slot(e.ID)
	if *slot == nil {
		*slot = e
		return
	}
	if t.others == nil {
		t.others = make(map[int64]*Entry)
	}
	t.others[e.ID] = e
}

// Delete removes the entry with this id, if there is one.
func (t *Entries) Delete(id int64) {
	if slot := t.slot(id); *slot != nil && (*slot).ID == id {
		*slot = nil
	} else if delete(t.others, id); len(t.others) == 0 {
		t.others = nil
	}
}

// All iterates over the entries, in no order. The loop may delete entries, and must not add
// any.
func (t *Entries) All() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for _, e := range t.slots[:] {
			if e != nil && !yield(e) {
				return
			}
		}
		for _, e := range t.others {
			if !yield(e) {
				return
			}
		}
	}
}

// Request ids of this package are FirstID to EndID-1. The progress token of a request is
// its id.
//
// The go-sdk counts its ids from 1 and shares the session, so the ranges must not meet. The
// ids fit into a signed 32-bit integer, because some servers store them as one: the
// official Rust SDK before 0.6.3 truncates larger ids in its answers.
const (
	FirstID = int64(1) << 30
	EndID   = int64(1) << 31
)

// RequestIDs assigns the request ids of one session. They count up and wrap around: after
// EndID-1 comes FirstID. Safe for concurrent use.
type RequestIDs struct{ assigned atomic.Int64 }

// Last returns the id that was assigned last.
func (r *RequestIDs) Last() int64 { return FirstID + r.assigned.Load()%(EndID-FirstID) }

// Next returns the next id. used is true after the ids have wrapped around: then the caller
// must check that no request in flight has the id.
func (r *RequestIDs) Next() (id int64, used bool) {
	n := r.assigned.Add(1)
	return FirstID + n%(EndID-FirstID), n >= EndID-FirstID
}

// SweepGrain is the shortest time between two deadline sweeps, and so how late a request
// may time out. One timer serves all requests of a session, so that a call needs no
// timer of its own.
const SweepGrain = 5 * time.Millisecond

// DeadlineTimer is the one timer of a table of deadlines. All methods but Stop are called
// with the mutex of the table; OnFire is called without it and acquires it.
//
// One sweep is: OnFire, Fired, a pass over the table, Rearm.
type DeadlineTimer struct {
	OnFire   func()         // set once, because a method value for each call would allocate
	timer    *overdue.Timer // nil until the first Set
	armedFor time.Time      // when the timer fires; zero: it is not armed
}

// Set makes the timer fire at the deadline or earlier.
func (t *DeadlineTimer) Set(deadline time.Time) {
	if !t.armedFor.IsZero() && !deadline.Before(t.armedFor) {
		return
	}
	t.armedFor = deadline
	after := max(time.Until(deadline), 0)
	if t.timer == nil {
		t.timer = overdue.AfterFunc(after, t.OnFire)
	} else {
		t.timer.Reset(after)
	}
}

// Fired records that the timer fired. OnFire calls it first.
func (t *DeadlineTimer) Fired() { t.armedFor = time.Time{} }

// Rearm ends a sweep. deadline is the earliest deadline in the table; zero: there are no
// deadlines. Two sweeps are at least SweepGrain apart, so that one sweep serves all
// deadlines within that time.
func (t *DeadlineTimer) Rearm(now, deadline time.Time) {
	if deadline.IsZero() {
		return
	}
	if soonest := now.Add(SweepGrain); deadline.Before(soonest) {
		deadline = soonest
	}
	t.Set(deadline)
}

// Stop stops the timer and reports whether it was armed. It does not wait for a call of
// OnFire that has begun.
func (t *DeadlineTimer) Stop() bool { return t.timer != nil && t.timer.Stop() }

// Clocks are the two time limits of one request: the idle limit (time without progress,
// Request.Timeout) and the total limit (Request.TotalTimeout).
//
// The idle clock is paused while a handler of the host answers a server request that
// belongs to the call. The total clock never stops. The mutex of the Table guards all
// fields.
type Clocks struct {
	idle      time.Duration // the idle limit; 0: no limit
	latestEnd time.Time     // when the total limit ends; zero: no limit

	handlers  int           // handlers of the host that work for the call now
	remaining time.Duration // idle time that was left when the first of them began
	requests  int           // server requests counted against the call
	renewals  int           // how often an answer to the server restarted the idle clock
}

// Start starts both clocks at the time now, and returns the first deadline; zero if the
// request has no limits.
func (c *Clocks) Start(r *transport.Request, now time.Time) (deadline time.Time) {
	if r.Timeout <= 0 && r.TotalTimeout <= 0 {
		return time.Time{}
	}
	if r.TotalTimeout > 0 {
		c.latestEnd = now.Add(r.TotalTimeout)
	}
	c.idle = r.Timeout
	return c.Progressed(now)
}

// Progressed restarts the idle clock after a progress notification and returns the new
// deadline. While a handler runs, only the total limit applies.
func (c *Clocks) Progressed(now time.Time) time.Time {
	if c.handlers > 0 {
		c.remaining = c.idle
		return c.latestEnd
	}
	return c.deadlineWithin(now, c.idle)
}

// Paused reports whether a handler of the host works for the call.
func (c *Clocks) Paused() bool { return c.handlers > 0 }

// Pause stops the idle clock when a handler begins, and returns the deadline until Resume:
// that of the total limit. Several handlers may run; the clock stops with the first.
func (c *Clocks) Pause(deadline, now time.Time) time.Time {
	if c.handlers++; c.handlers == 1 && !deadline.IsZero() {
		c.remaining = deadline.Sub(now)
	}
	return c.latestEnd
}

// Resume undoes one Pause and returns the new deadline. A handler that answered restarts
// the idle clock, at most MaxRounds times: in 2026-07-28 such an answer would lead to
// another round, with an idle limit of its own. After any other end of the handler the
// remaining idle time continues.
func (c *Clocks) Resume(answered bool, now time.Time) time.Time {
	if answered && c.renewals < MaxRounds {
		c.renewals++
		c.remaining = c.idle
	}
	if c.handlers--; c.handlers > 0 {
		return c.latestEnd
	}
	return c.deadlineWithin(now, c.remaining)
}

// CountRequest counts one server request against the call. It reports false beyond
// MaxRequestsPerCall.
func (c *Clocks) CountRequest() bool {
	c.requests++
	return c.requests <= MaxRequestsPerCall
}

// deadlineWithin returns the earlier end of two: of the remaining idle time, and of the
// total limit.
func (c *Clocks) deadlineWithin(now time.Time, remaining time.Duration) time.Time {
	if c.idle <= 0 {
		return c.latestEnd
	}
	deadline := now.Add(remaining)
	if !c.latestEnd.IsZero() && c.latestEnd.Before(deadline) {
		return c.latestEnd
	}
	return deadline
}

const (
	// MaxRounds is how often one request may be sent (2026-07-28, multi round-trip
	// requests), the first time included.
	MaxRounds = 8
	// MaxInputRequests is how many inputs a server may request in one round.
	MaxInputRequests = 32
	// MaxRequestsPerCall is how many requests of a legacy server are served for one call. A
	// modern server may request as many inputs in all rounds of a call.
	MaxRequestsPerCall = MaxRounds * MaxInputRequests
)
