package jsonrpc

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport"
)

// tableOwner is the request behind an entry of these tests. The mutex of the table guards
// it, as it guards the owners of the sessions.
type tableOwner struct {
	notSent bool
	expired []time.Time // when Expire was called
	expire  func() (after func())
}

func (o *tableOwner) InFlight() bool { return !o.notSent }

func (o *tableOwner) Expire() (after func()) {
	o.expired = append(o.expired, time.Now())
	if o.expire != nil {
		return o.expire()
	}
	return nil
}

// addRequest adds a request with these limits.
func addRequest(t *testing.T, table *Table, r transport.Request) (*Entry, *tableOwner) {
	t.Helper()
	owner := new(tableOwner)
	e := &Entry{Owner: owner}
	require.NoError(t, table.Add(e, true, &r))
	return e, owner
}

// expiries returns when Expire was called.
func (o *tableOwner) expiries(table *Table) []time.Time {
	table.Mu.Lock()
	defer table.Mu.Unlock()
	return append([]time.Time(nil), o.expired...)
}

// endTable ends the session of a table, so that its timer does not outlive the test.
func endTable(table *Table, cause error) {
	table.Mu.Lock()
	defer table.Mu.Unlock()
	table.EndLocked(cause)
}

// TimerStopped stops the timer and reports whether it was stopped already.
func (t *Table) TimerStopped() bool { return !t.timer.Stop() }

// Skip moves the counter so that the next left ids are new and the id after them wraps around.
func (r *RequestIDs) Skip(left int64) { r.assigned.Store(EndID - FirstID - 1 - left) }

var errTableEnded = errors.New("the session ended")

func TestTable_Add(t *testing.T) {
	t.Run("requests count up", func(t *testing.T) {
		var table Table
		first, _ := addRequest(t, &table, transport.Request{})
		second, _ := addRequest(t, &table, transport.Request{})
		require.GreaterOrEqual(t, first.ID, FirstID)
		require.Equal(t, first.ID+1, second.ID)
		require.ElementsMatch(t, []*Entry{first, second}, slices.Collect(table.Open.All()))
		require.Zero(t, table.lastKey, "no entry that is not a request")
	})
	t.Run("other exchanges count down from -1", func(t *testing.T) {
		var table Table
		for want := int64(-1); want >= -3; want-- {
			e := &Entry{Owner: new(tableOwner)}
			require.NoError(t, table.Add(e, false, &transport.Request{}))
			require.Equal(t, want, e.ID)
			require.Equal(t, want, table.lastKey)
			require.Same(t, e, table.Open.Get(want))
		}
	})
	t.Run("no deadline without limits", func(t *testing.T) {
		var table Table
		e, _ := addRequest(t, &table, transport.Request{})
		require.Zero(t, e.Deadline)
		require.True(t, table.TimerStopped(), "no timer is armed")
	})
	t.Run("after the end", func(t *testing.T) {
		var table Table
		kept, _ := addRequest(t, &table, transport.Request{})
		endTable(&table, errTableEnded)
		require.ErrorIs(t, table.Ended(), errTableEnded)
		require.ErrorIs(t, table.Add(&Entry{Owner: new(tableOwner)}, true, &transport.Request{Timeout: time.Minute}), errTableEnded)
		require.ElementsMatch(t, []*Entry{kept}, slices.Collect(table.Open.All()), "the refused entry is not added, the others stay")
		require.True(t, table.TimerStopped())
	})
}

// Ids start again at FirstID. A request that is in flight keeps its id.
func TestTable_Add_ids_wrap(t *testing.T) {
	var table Table
	table.IDs.Skip(2)
	last, _ := addRequest(t, &table, transport.Request{})
	require.Equal(t, EndID-2, last.ID)
	newest, _ := addRequest(t, &table, transport.Request{})
	require.Equal(t, EndID-1, newest.ID)
	wrapped, _ := addRequest(t, &table, transport.Request{})
	require.Equal(t, FirstID, wrapped.ID)

	table.IDs.Skip(1)
	table.Remove(newest)
	again, _ := addRequest(t, &table, transport.Request{})
	require.Equal(t, EndID-1, again.ID, "the id of a removed request is used again")
	free, _ := addRequest(t, &table, transport.Request{})
	require.Equal(t, FirstID+1, free.ID, "the id of a request in flight is left out")
	require.Len(t, slices.Collect(table.Open.All()), 4)
	require.Same(t, wrapped, table.Open.Get(FirstID))
}

// An answer finds its request by the id, once. A late answer finds nothing.
func TestTable_Remove(t *testing.T) {
	var table Table
	e, _ := addRequest(t, &table, transport.Request{})
	other, _ := addRequest(t, &table, transport.Request{})
	table.Remove(e)
	require.ElementsMatch(t, []*Entry{other}, slices.Collect(table.Open.All()))
	_, found := table.Progressed(e.ID)
	require.False(t, found, "a late notification")

	t.Run("the id is used again", func(t *testing.T) {
		next := &Entry{ID: e.ID, Owner: new(tableOwner)}
		table.Mu.Lock()
		table.AddLocked(next)
		table.Mu.Unlock()
		table.Remove(e)
		require.Same(t, next, table.Open.Get(e.ID), "the request that has the id now stays")
	})
}

func TestTable_deadline(t *testing.T) {
	// inBubble runs a case in virtual time.
	inBubble := func(name string, f func(t *testing.T, table *Table)) {
		testutil.RunInBubble(t, name, func(t *testing.T) {
			var table Table
			defer endTable(&table, errTableEnded)
			f(t, &table)
		})
	}
	inBubble("each request at its own", func(t *testing.T, table *Table) {
		began := time.Now()
		_, last := addRequest(t, table, transport.Request{Timeout: 5 * time.Second})
		_, late := addRequest(t, table, transport.Request{Timeout: 3 * time.Second})
		_, early := addRequest(t, table, transport.Request{TotalTimeout: time.Second})
		_, never := addRequest(t, table, transport.Request{})
		time.Sleep(time.Minute)
		require.Equal(t, []time.Time{began.Add(time.Second)}, early.expiries(table))
		require.Equal(t, []time.Time{began.Add(3 * time.Second)}, late.expiries(table), "once, and the timer is armed for the next")
		require.Equal(t, []time.Time{began.Add(5 * time.Second)}, last.expiries(table))
		require.Empty(t, never.expiries(table))
	})
	inBubble("close together", func(t *testing.T, table *Table) {
		began := time.Now()
		_, first := addRequest(t, table, transport.Request{Timeout: time.Second})
		_, second := addRequest(t, table, transport.Request{Timeout: time.Second + SweepGrain/2})
		time.Sleep(time.Minute)
		require.Equal(t, []time.Time{began.Add(time.Second)}, first.expiries(table))
		require.Equal(t, []time.Time{began.Add(time.Second + SweepGrain)}, second.expiries(table), "in the next sweep")
	})
	inBubble("answered before", func(t *testing.T, table *Table) {
		e, owner := addRequest(t, table, transport.Request{Timeout: time.Second})
		time.Sleep(time.Second - 1)
		table.Remove(e)
		time.Sleep(time.Minute)
		require.Empty(t, owner.expiries(table))
	})
	inBubble("stopped before", func(t *testing.T, table *Table) {
		e, owner := addRequest(t, table, transport.Request{Timeout: time.Second})
		table.StopClock(e)
		time.Sleep(time.Minute)
		require.Empty(t, owner.expiries(table))
		require.Same(t, e, table.Open.Get(e.ID), "the request stays in flight")
	})
	inBubble("the session ended before", func(t *testing.T, table *Table) {
		_, owner := addRequest(t, table, transport.Request{Timeout: time.Second})
		endTable(table, errTableEnded)
		require.True(t, table.TimerStopped())
		time.Sleep(time.Minute)
		require.Empty(t, owner.expiries(table))
	})
	inBubble("the sweep sees the end", func(t *testing.T, table *Table) {
		_, owner := addRequest(t, table, transport.Request{Timeout: time.Second})
		endTable(table, errTableEnded)
		time.Sleep(time.Minute)
		table.sweep() // the timer had fired when the session ended
		require.Empty(t, owner.expiries(table))
	})
	inBubble("Expire removes the entry", func(t *testing.T, table *Table) {
		e, owner := addRequest(t, table, transport.Request{Timeout: time.Second})
		free := make(chan bool, 1)
		table.Mu.Lock()
		owner.expire = func() func() {
			table.Open.Delete(e.ID)
			return func() {
				ok := table.Mu.TryLock()
				if ok {
					table.Mu.Unlock()
				}
				free <- ok
			}
		}
		table.Mu.Unlock()
		time.Sleep(time.Minute)
		require.Len(t, owner.expiries(table), 1)
		require.True(t, <-free, "after is called without the mutex")
		require.Empty(t, slices.Collect(table.Open.All()))
	})
}

func TestTable_Progressed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table Table
		defer endTable(&table, errTableEnded)
		began := time.Now()
		e, owner := addRequest(t, &table, transport.Request{Timeout: 10 * time.Second, TotalTimeout: 15 * time.Second})
		e.Progress = NewProgressQueue(&transport.Request{Progress: func(mcpvisor.Progress) {}})
		time.Sleep(4 * time.Second)
		queue, found := table.Progressed(e.ID)
		require.True(t, found)
		require.Same(t, e.Progress, queue)
		require.Equal(t, began.Add(14*time.Second), e.Deadline, "the idle clock starts again")
		time.Sleep(4 * time.Second)
		_, _ = table.Progressed(e.ID)
		require.Equal(t, began.Add(15*time.Second), e.Deadline, "the total clock does not")
		time.Sleep(time.Minute)
		require.Equal(t, []time.Time{began.Add(15 * time.Second)}, owner.expiries(&table))

		without, _ := addRequest(t, &table, transport.Request{})
		queue, found = table.Progressed(without.ID)
		require.True(t, found)
		require.Nil(t, queue, "the caller wants no reports")
		require.Zero(t, without.Deadline, "no deadline appears")

		queued, owner := addRequest(t, &table, transport.Request{})
		owner.notSent = true
		other := &Entry{Owner: new(tableOwner)}
		require.NoError(t, table.Add(other, false, &transport.Request{}))
		for name, id := range map[string]int64{"unknown id": EndID, "not sent": queued.ID, "not a request": other.ID} {
			_, found = table.Progressed(id)
			require.False(t, found, name)
		}
	})
}

func TestTable_CountRequest(t *testing.T) {
	exhaust := func(t *testing.T, table *Table, call int64) {
		t.Helper()
		for range MaxRequestsPerCall {
			require.True(t, table.CountRequest(call))
		}
		require.False(t, table.CountRequest(call))
	}
	t.Run("a known call", func(t *testing.T) {
		var table Table
		e, _ := addRequest(t, &table, transport.Request{})
		other, _ := addRequest(t, &table, transport.Request{})
		exhaust(t, &table, e.ID)
		require.True(t, table.CountRequest(other.ID), "each call has its own count")
		require.True(t, table.CountRequest(EndID), "a call that is over is not counted")
	})
	t.Run("an unknown call counts against all in flight", func(t *testing.T) {
		var table Table
		e, _ := addRequest(t, &table, transport.Request{})
		other, _ := addRequest(t, &table, transport.Request{})
		exhaust(t, &table, 0)
		require.False(t, table.CountRequest(e.ID))
		require.False(t, table.CountRequest(other.ID))
		_, owner := addRequest(t, &table, transport.Request{})
		for range 100 { // in any order of the map
			require.True(t, table.CountRequest(0), "one of the calls has requests left")
		}
		owner.notSent = true
		require.False(t, table.CountRequest(0), "a request that was not sent is not in flight")
	})
	t.Run("a known call that was not sent", func(t *testing.T) {
		var table Table
		e, owner := addRequest(t, &table, transport.Request{})
		exhaust(t, &table, e.ID)
		owner.notSent = true
		require.True(t, table.CountRequest(e.ID))
	})
	t.Run("no call in flight", func(t *testing.T) {
		var table Table
		require.NoError(t, table.Add(&Entry{Owner: new(tableOwner)}, false, &transport.Request{}))
		for range 2 * MaxRequestsPerCall {
			require.True(t, table.CountRequest(0))
		}
	})
}

func TestTable_PauseClocks(t *testing.T) {
	for name, c := range map[string]struct {
		answered bool
		left     time.Duration // of the idle limit, after the pause
	}{
		"answered":     {true, 10 * time.Second},
		"not answered": {false, 6 * time.Second},
	} {
		testutil.RunInBubble(t, name, func(t *testing.T) {
			var table Table
			defer endTable(&table, errTableEnded)
			e, owner := addRequest(t, &table, transport.Request{Timeout: 10 * time.Second})
			time.Sleep(4 * time.Second)
			restart := table.PauseClocks(0)
			time.Sleep(time.Hour)
			require.Empty(t, owner.expiries(&table), "the idle clock is paused")
			resumed := time.Now()
			restart(c.answered)
			require.Equal(t, resumed.Add(c.left), e.Deadline)
			time.Sleep(time.Hour)
			require.Equal(t, []time.Time{resumed.Add(c.left)}, owner.expiries(&table), "the timer is armed again")
		})
	}
	testutil.RunInBubble(t, "the total clock goes on", func(t *testing.T) {
		var table Table
		defer endTable(&table, errTableEnded)
		began := time.Now()
		e, owner := addRequest(t, &table, transport.Request{Timeout: 10 * time.Second, TotalTimeout: time.Minute})
		table.PauseClocks(e.ID)
		time.Sleep(time.Hour)
		require.Equal(t, []time.Time{began.Add(time.Minute)}, owner.expiries(&table))
	})
	testutil.RunInBubble(t, "only the known call", func(t *testing.T) {
		var table Table
		defer endTable(&table, errTableEnded)
		paused, pausedOwner := addRequest(t, &table, transport.Request{Timeout: time.Second})
		_, owner := addRequest(t, &table, transport.Request{Timeout: time.Second})
		table.PauseClocks(paused.ID)
		time.Sleep(time.Hour)
		require.Empty(t, pausedOwner.expiries(&table))
		require.Len(t, owner.expiries(&table), 1)
	})
	testutil.RunInBubble(t, "the entry serves another request by then", func(t *testing.T) {
		var table Table
		defer endTable(&table, errTableEnded)
		e, owner := addRequest(t, &table, transport.Request{Timeout: time.Second})
		restart := table.PauseClocks(e.ID)
		table.Remove(e)
		*e = Entry{Owner: owner}
		require.NoError(t, table.Add(e, true, &transport.Request{Timeout: time.Minute}))
		table.PauseClocks(e.ID)
		restart(true)
		require.True(t, e.Clocks.Paused(), "the pause of the other request stays")
		require.Zero(t, e.Deadline, "and its idle clock does not start")
	})
	testutil.RunInBubble(t, "the session ended by then", func(t *testing.T) {
		var table Table
		e, _ := addRequest(t, &table, transport.Request{Timeout: time.Second})
		restart := table.PauseClocks(e.ID)
		time.Sleep(time.Minute) // the timer fires, and no deadline is left
		endTable(&table, errTableEnded)
		restart(true)
		require.True(t, table.TimerStopped(), "the timer is not armed again")
	})
}

// The table lists requests with their age, and neither streams nor exchanges that carry no
// request.
func TestTable_InFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table Table
		began := time.Now().Add(-time.Minute)
		e, _ := addRequest(t, &table, transport.Request{Method: "tools/call", Target: "x", Began: began, RoundBegan: time.Now(), Timeout: time.Second})
		addRequest(t, &table, transport.Request{Method: "subscriptions/listen", Stream: new(transport.Stream)})
		require.NoError(t, table.Add(&Entry{Owner: new(tableOwner)}, false, &transport.Request{Timeout: time.Hour}))
		require.Equal(t, []transport.InFlight{{Method: "tools/call", Target: "x", Began: began, ID: e.ID}}, table.InFlight())
		require.Equal(t, time.Now().Add(time.Second), e.Deadline, "the clocks count from the round")
		ping, _ := addRequest(t, &table, transport.Request{Method: "ping"})
		require.Contains(t, table.InFlight(), transport.InFlight{Method: "ping", Began: time.Now(), ID: ping.ID})
		table.Remove(e)
		table.StopClock(ping)
		require.Empty(t, table.InFlight(), "one has ended, the other has its answer")
		endTable(&table, errTableEnded)
	})
}

// sentOwner is a request that the server may have received, unless it is false.
type sentOwner bool

func (o sentOwner) InFlight() bool { return bool(o) }
func (sentOwner) Expire() func()   { return nil }

// entryOf adds a request with these handlers to a table.
func entryOf(t *Table, method string, sent bool, h *transport.CallHandlers) *Entry {
	e := &Entry{Owner: sentOwner(sent)}
	r := transport.Request{Method: method}
	if h != nil {
		r.Caller = &transport.Caller{Handlers: h}
	}
	t.Add(e, true, &r)
	return e
}

func TestTable_AnswererOf(t *testing.T) {
	ann, bob := &transport.CallHandlers{}, &transport.CallHandlers{SampleTools: true}
	var table Table
	expect := func(call int64, h *transport.CallHandlers, id int64, ok bool) {
		t.Helper()
		handlers, of, known := table.AnswererOf(call, "roots/list")
		require.Equal(t, ok, known)
		if ok {
			require.Same(t, h, handlers)
			require.Equal(t, id, of)
		}
	}
	host := entryOf(&table, "tools/call", true, nil)
	entryOf(&table, "tools/call", true, nil)
	expect(0, nil, 0, true) // only the client
	expect(77, nil, 77, true)
	first := entryOf(&table, "tools/call", true, ann)
	expect(0, nil, 0, false)
	expect(first.ID, ann, first.ID, true)
	expect(host.ID, nil, host.ID, true)
	expect(77, nil, 0, false) // a call that has ended
	table = Table{}
	first = entryOf(&table, "prompts/get", true, ann)
	for _, method := range []string{"ping", "tools/list", "resources/subscribe", "tasks/get"} {
		entryOf(&table, method, true, nil)
	}
	entryOf(&table, "tools/call", false, bob) // the server has not seen it
	expect(-1, ann, first.ID, true)
	second := entryOf(&table, "resources/read", true, ann)
	expect(-1, ann, -1, true)
	table.Remove(first)
	table.Remove(second)
	expect(0, nil, 0, true) // none: the client
}

// A call that was given up counts for GivenUpGrace, or until it is answered.
func TestTable_GaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ann, bob := &transport.CallHandlers{}, &transport.CallHandlers{SampleTools: true}
		var table Table
		end := func(e *Entry) {
			table.GaveUp(e)
			table.Remove(e)
		}
		host := entryOf(&table, "tools/call", true, nil)
		end(host)
		require.Empty(t, table.answerers.givenUp, "no call has had handlers")
		known := func() bool { _, _, ok := table.AnswererOf(0, "roots/list"); return ok }
		gone := entryOf(&table, "tools/call", true, ann)
		require.False(t, known(), "the call of the client may ask")
		time.Sleep(GivenUpGrace)
		require.True(t, known())
		end(entryOf(&table, "tools/list", true, nil))
		end(gone)
		entryOf(&table, "tools/call", true, bob)
		require.False(t, known())
		time.Sleep(GivenUpGrace)
		require.False(t, known())
		time.Sleep(time.Nanosecond)
		require.True(t, known())
		require.Empty(t, table.answerers.givenUp)
		gone = entryOf(&table, "tools/call", true, ann)
		end(gone)
		require.False(t, known())
		table.AnsweredLate(gone.ID)
		require.True(t, known())
		for range maxGivenUp + 10 {
			end(entryOf(&table, "tools/call", true, bob))
		}
		require.Len(t, table.answerers.givenUp, maxGivenUp)
		require.False(t, known(), "more than are remembered")
		time.Sleep(2 * GivenUpGrace)
		end(entryOf(&table, "tools/call", true, bob))
		require.Len(t, table.answerers.givenUp, 1)
		require.True(t, known())
	})
}

// Deadlines that are close together share one sweep.
func TestDeadlineTimer_Rearm_keeps_sweeps_apart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var timer DeadlineTimer
		sweeps := 0
		timer.OnFire = func() {
			mu.Lock()
			defer mu.Unlock()
			sweeps++
			timer.Fired()
			now := time.Now()
			timer.Rearm(now, now.Add(time.Microsecond))
		}
		mu.Lock()
		timer.Set(time.Now())
		mu.Unlock()
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		timer.Stop()
		require.InDelta(t, int(time.Second/SweepGrain), sweeps, 2)
	})
}

// Entries behaves like a map, whatever ids come in whatever order.
func TestEntries_is_a_map(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var entries Entries
		want := map[int64]*Entry{}
		id := rapid.OneOf(rapid.Int64Range(FirstID, FirstID+100), rapid.Int64Range(-5, -1), rapid.Int64Range(0, 20),
			rapid.Map(rapid.Int64Range(0, 20), func(n int64) int64 { return FirstID + 128*n }))
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			n := id.Draw(t, "id")
			if e := entries.Get(n); want[n] != e {
				t.Fatalf("entry %d is %p, not %p", n, e, want[n])
			}
			if want[n] == nil {
				want[n] = &Entry{ID: n}
				entries.Add(want[n])
			} else {
				delete(want, n)
				entries.Delete(n)
			}
			entries.Delete(n - 1<<20) // is not there
			seen := map[int64]*Entry{}
			for e := range entries.All() {
				seen[e.ID] = e
			}
			require.Equal(t, want, seen)
			require.Len(t, slices.Collect(entries.All()), len(want))
		}
		for e := range entries.All() {
			entries.Delete(e.ID)
		}
		require.Empty(t, slices.Collect(entries.All()), "a loop may delete")
	})
}

// After many requests at a time the memory for them is not kept.
func TestEntries_frees_memory(t *testing.T) {
	var entries Entries
	for id := range int64(10_000) {
		entries.Add(&Entry{ID: FirstID + id})
	}
	for id := range int64(10_000) {
		entries.Delete(FirstID + id)
	}
	require.Zero(t, entries)
}
