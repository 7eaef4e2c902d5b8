package jsonrpc

import (
	"iter"
	"slices"
	"sync"
	"time"

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
	Deadline time.Time // zero: no deadline
	Clocks   Clocks
	Progress *ProgressQueue // nil: the caller wants no reports
	// Stopped: the sweep ignores the deadline, because it has passed or was stopped.
	Stopped bool
	Owner   Owner
}

// Owner is the request behind an entry. The table calls all methods with its mutex held.
type Owner interface {
	// InFlight reports whether the server may have received the request.
	InFlight() bool
	// Expire ends the request, because its deadline has passed. It may remove the entry.
	// after, if not nil, is called when the mutex is released.
	Expire() (after func())
}

// AddLocked adds a request and arms the timer for its deadline. Its id must be free. The
// caller holds Mu and has checked Ended.
func (t *Table) AddLocked(e *Entry) {
	t.Open.Add(e)
	if !e.Deadline.IsZero() {
		if t.timer.OnFire == nil {
			t.timer.OnFire = t.sweep
		}
		t.timer.Set(e.Deadline)
	}
}

// Add starts the clocks of an exchange, assigns its id and adds it: a request gets a
// request id, anything else a negative number. If the session has ended, Add returns why
// and adds nothing.
func (t *Table) Add(e *Entry, request bool, r transport.Request) (ended error) {
	e.Start(&r)
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
	if r.Stream == nil {
		e.What = transport.InFlight{Method: r.Method, Target: r.Target, Began: began}
	}
}

// InFlight returns the requests in the table, in no order.
func (t *Table) InFlight() (all []transport.InFlight) {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	for e := range t.Open.All() {
		if e.What.Method != "" {
			all = append(all, e.What)
		}
	}
	return all
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

// Newest returns the id of the newest entry that is not a request; 0 if there was none. The
// caller holds Mu.
func (t *Table) Newest() int64 { return t.lastKey }

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
// the mutex. The entries stay in the table until they are removed. An exchange that Add
// is asked to enter later is not entered.
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

// TimerStopped stops the timer and reports whether it was stopped already. Only tests call
// it, after the session has ended.
func (t *Table) TimerStopped() bool { return !t.timer.Stop() }

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
		e.Deadline = e.Clocks.Pause(e.Deadline, now)
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
// Ids count up, so the ids in flight at a time are close together. Most entries lie in the
// slot that the last bits of their id name, which takes a fraction of the time of a map. An
// entry whose slot is taken, by one that stays longer, lies in a map.
type Entries struct {
	slots  []*Entry         // a power of two of them, or none
	others map[int64]*Entry // entries whose slot is taken
	count  int
}

const (
	// minSlots is how many slots the first entry makes.
	minSlots = 16
	// maxIdleSlots is how many slots are kept when the last entry is removed.
	maxIdleSlots = 256
)

// Len returns how many entries there are.
func (t *Entries) Len() int { return t.count }

// Get returns the entry with this id; nil if it is not there.
func (t *Entries) Get(id int64) *Entry {
	if len(t.slots) == 0 {
		return nil
	}
	if e := t.slots[t.slotOf(id)]; e != nil && e.ID == id {
		return e
	}
	if len(t.others) == 0 {
		return nil
	}
	return t.others[id]
}

// slotOf returns the index of the slot for an id. There are slots.
func (t *Entries) slotOf(id int64) int { return int(id) & (len(t.slots) - 1) }

// Add adds an entry. Its id must be free.
func (t *Entries) Add(e *Entry) {
	if t.count >= len(t.slots)/2 {
		t.grow()
	}
	t.count++
	t.place(e)
}

// grow doubles the slots, and gives each entry its new place.
func (t *Entries) grow() {
	old := *t
	t.slots, t.others = make([]*Entry, max(2*len(old.slots), minSlots)), nil
	for e := range old.All() {
		t.place(e)
	}
}

// place puts an entry into its slot, or beside the slots if that is taken.
func (t *Entries) place(e *Entry) {
	slot := &t.slots[t.slotOf(e.ID)]
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
	if t.Get(id) == nil {
		return
	}
	if slot := &t.slots[t.slotOf(id)]; *slot != nil && (*slot).ID == id {
		*slot = nil
	} else {
		delete(t.others, id)
	}
	if t.count--; t.count == 0 && len(t.slots) > maxIdleSlots {
		*t = Entries{}
	}
}

// All iterates over the entries, in no order. The loop may delete entries, and must not add
// any.
func (t *Entries) All() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for _, e := range t.slots {
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
