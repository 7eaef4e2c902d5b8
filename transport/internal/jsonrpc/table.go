package jsonrpc

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/transport"
)

// Table holds the requests in flight of one session, whatever its transport is. One
// timer serves all their deadlines. The zero Table is empty and ready.
//
// Its mutex may guard more of the owner's: a session over pipes queues a line and
// enters the request in one step.
type Table struct {
	// IDs assigns the ids of requests.
	IDs RequestIDs

	Mu sync.Mutex
	// Open holds the entries by their ids. Guarded by Mu.
	Open map[int64]*Entry

	lastKey int64 // of the entries that are no requests: negative, going down; with Mu
	ended   error // why the session ended; with Mu
	timer   DeadlineTimer
}

// Entry is what the table keeps of one request. Guarded by the table's mutex, except
// for ID, Progress and Owner, which do not change while the entry is in the table.
type Entry struct {
	// ID is the id of the request. It is negative for what is no request of ours.
	ID       int64
	Deadline time.Time // zero: none
	Clocks   Clocks
	Progress *ProgressQueue // nil: the caller wants no reports
	// Stopped: the deadline does not count any more, or it has passed.
	Stopped bool
	Owner   Owner
}

// Owner is the request behind an entry. All methods are called with the table's mutex.
type Owner interface {
	// InFlight reports whether the server may have seen the request.
	InFlight() bool
	// Expire is called when the deadline has passed. It may remove the entry. after,
	// if not nil, is called when the mutex is free.
	Expire() (after func())
}

// AddLocked enters a request. Its id must be free. The caller holds Mu and has looked
// at Ended.
func (t *Table) AddLocked(e *Entry) {
	if t.Open == nil {
		t.Open = make(map[int64]*Entry)
		t.timer.OnFire = t.sweep
	}
	t.Open[e.ID] = e
	if !e.Deadline.IsZero() {
		t.timer.Set(e.Deadline)
	}
}

// Add starts the clocks of an exchange and enters it with an id: that of a request, or
// a negative number. It returns why the session has ended, if it has.
func (t *Table) Add(e *Entry, request bool, r transport.Request) (ended error) {
	e.Deadline = e.Clocks.Start(r)
	t.Mu.Lock()
	defer t.Mu.Unlock()
	e.ID = t.nextIDLocked(request)
	if t.ended == nil {
		t.AddLocked(e)
	}
	return t.ended
}

func (t *Table) nextIDLocked(request bool) int64 {
	if !request {
		t.lastKey--
		return t.lastKey
	}
	for {
		if id, used := t.IDs.Next(); !used || t.Open[id] == nil {
			return id
		}
	}
}

// Newest is the id of the entry that was added last of those that are no requests. The
// caller holds Mu.
func (t *Table) Newest() int64 { return t.lastKey }

// Remove takes an entry out of the table, if it is there.
func (t *Table) Remove(e *Entry) {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	if t.Open[e.ID] == e {
		delete(t.Open, e.ID)
	}
}

// StopClock makes the deadline of an entry count no more.
func (t *Table) StopClock(e *Entry) {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	e.Stopped = true
}

// End records that the session has ended, and then calls end for each entry, without
// the mutex. The entries stay in the table until they are removed. An exchange that Add
// is asked to enter later is not entered.
func (t *Table) End(cause error, end func(*Entry)) {
	t.Mu.Lock()
	t.EndLocked(cause)
	open := slices.Collect(maps.Values(t.Open))
	t.Mu.Unlock()
	for _, e := range open {
		end(e)
	}
}

// EndLocked records that the session has ended: no deadline is kept from now on. The
// entries stay; the caller, who holds Mu, ends them.
func (t *Table) EndLocked(cause error) {
	t.ended = cause
	t.timer.Stop()
}

// Ended is why the session has ended; nil if it has not. The caller holds Mu.
func (t *Table) Ended() error { return t.ended }

// TimerStopped reports whether no deadline is waited for.
func (t *Table) TimerStopped() bool { return !t.timer.Stop() }

// sweep expires what is overdue.
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
	for _, e := range t.Open {
		switch {
		case e.Deadline.IsZero(), e.Stopped:
		case !e.Deadline.After(now):
			e.Stopped = true
			if f := e.Owner.Expire(); f != nil {
				after = append(after, f)
			}
		case next.IsZero() || e.Deadline.Before(next):
			next = e.Deadline
		}
	}
	t.timer.Rearm(now, next)
	t.Mu.Unlock()
	for _, f := range after {
		f()
	}
}

// Progressed restarts the clock of a request about which the server has reported, and
// returns the queue of its caller, if that wants reports.
func (t *Table) Progressed(id int64) (to *ProgressQueue, found bool) {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	e := t.Open[id]
	if e == nil || id <= 0 || !e.Owner.InFlight() {
		return nil, false
	}
	if !e.Deadline.IsZero() {
		e.Deadline = e.Clocks.Progressed(time.Now())
	}
	return e.Progress, true
}

// CountRequest counts one request of the server's against the calls that it may belong
// to. call is the id of a request of ours; 0 or less: it is not known which, and each
// that is in flight counts. It reports false if every one of them has had
// MaxRequestsPerCall.
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

// PauseClocks stops the idle clocks of these calls while a handler answers a request of
// the server's. restart ends that; answered says whether the answer is a result.
func (t *Table) PauseClocks(call int64) (restart func(answered bool)) {
	now := time.Now()
	t.Mu.Lock()
	defer t.Mu.Unlock()
	calls := t.callsLocked(call)
	ids := make([]int64, len(calls)) // an entry over pipes is used again for another request
	for i, e := range calls {
		ids[i] = e.ID
		e.Deadline = e.Clocks.Pause(e.Deadline, now)
	}
	return func(answered bool) {
		now := time.Now()
		t.Mu.Lock()
		defer t.Mu.Unlock()
		for i, e := range calls {
			if t.Open[ids[i]] != e || !e.Clocks.Paused() {
				continue
			}
			if e.Deadline = e.Clocks.Resume(answered, now); !e.Deadline.IsZero() && t.ended == nil {
				t.timer.Set(e.Deadline)
			}
		}
	}
}

// callsLocked are the requests that a request of the server's may belong to.
func (t *Table) callsLocked(call int64) (calls []*Entry) {
	if call > 0 {
		if e := t.Open[call]; e != nil && e.Owner.InFlight() {
			calls = append(calls, e)
		}
		return calls
	}
	for id, e := range t.Open {
		if id > 0 && e.Owner.InFlight() {
			calls = append(calls, e)
		}
	}
	return calls
}
