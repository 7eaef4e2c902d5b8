package clients

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// at sets the clock of a registry.
func newAt(now *time.Time) *Registry {
	r := New()
	r.now = func() time.Time { return *now }
	return r
}

func TestRegistry(t *testing.T) {
	now := time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	r := newAt(&now)
	began := now
	c := r.Open("a", Info{Name: "host\x1b[2J\nx", Version: strings.Repeat("9", 1000), Principal: "ci", Transport: "http"})
	c.Begin(true)
	now = now.Add(time.Minute)
	require.Same(t, c, r.Open("a", Info{Protocol: "2025-11-25"}), "what is not said stays")
	c.Begin(false)
	c.Stream(1)
	s := r.Status()
	require.Equal(t, 2, s.InFlight)
	require.Equal(t, 1, s.Streams)
	require.Len(t, s.Sessions, 1)
	one := s.Sessions[0]
	require.Equal(t, began, one.Since)
	require.Equal(t, now, one.Last)
	require.NotContains(t, one.Name, "\x1b")
	require.NotContains(t, one.Name, "\n")
	require.Equal(t, "ci", one.Principal)
	require.Equal(t, "2025-11-25", one.Protocol)
	require.LessOrEqual(t, len(one.Version), maxText)
	c.Done(OutcomeAnswered)
	c.Done(OutcomeCanceled)
	c.Stream(-1)
	r.Refuse(RefusedToken)
	s = r.Status()
	require.Zero(t, s.InFlight+s.Streams)
	require.EqualValues(t, 1, s.Requests[OutcomeAnswered])
	require.EqualValues(t, 1, s.Requests[OutcomeCanceled])
	require.EqualValues(t, 1, s.Refused[RefusedToken])
	require.Len(t, s.Requests, len(Outcomes()))
	require.EqualValues(t, 2, s.Sessions[0].Requests)
	require.EqualValues(t, 1, s.Sessions[0].Calls)
	require.EqualValues(t, 1, s.Sessions[0].Failed)
	r.End("a")
	require.Equal(t, now, *r.Status().Sessions[0].Ended)
	now = now.Add(Window)
	require.Empty(t, r.Status().Sessions, "it was not seen for long")
	require.EqualValues(t, 1, r.Status().Requests[OutcomeAnswered], "what it did stays counted")

	var none *Client
	none.Begin(true)
	none.Done(OutcomeError)
	none.Connect(1)
	none.Stream(1)
	none.Introduce(Info{})
	require.Empty(t, none.Label())
}

// A connection that is open is shown however long it was silent, before those that are not.
func TestRegistry_open_connections(t *testing.T) {
	now := time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	r := newAt(&now)
	c := r.Open("stdio", Info{Name: "first", Version: "1"})
	require.Equal(t, "first 1", c.Label())
	c.Connect(1)
	now = now.Add(2 * Window)
	r.Open("a", Info{Principal: "ci"})
	s := r.Status()
	require.Equal(t, 2, s.Total)
	require.Equal(t, "first", s.Sessions[0].Name)
	c.Connect(-1)
	now = now.Add(time.Second)
	require.Len(t, r.Status().Sessions, 1)
}

// Many clients cost little, and those with something open stay.
func TestRegistry_is_bounded(t *testing.T) {
	now := time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	r := newAt(&now)
	before := heap()
	busy := r.Open("busy", Info{Name: "busy"})
	busy.Begin(true)
	for i := range 10 * maxKept {
		r.Open(fmt.Sprint("visitor-", i), Info{Name: strings.Repeat("n", 1<<12), Version: strings.Repeat("v", 1<<12)})
	}
	after := heap()
	t.Logf("%d bytes each", (after-before)/maxKept)
	require.Less(t, (after-before)/maxKept, uint64(2<<10))
	s := r.Status()
	require.Equal(t, maxKept, s.Total)
	require.Len(t, s.Sessions, maxListed)
	require.Equal(t, "busy", s.Sessions[0].Name)

	for i := range maxKept {
		r.Open(fmt.Sprint("worker-", i), Info{}).Stream(1)
	}
	late := r.Open("late", Info{Name: "late"})
	late.Begin(true)
	require.LessOrEqual(t, len(r.byKey), maxKept)
	s = r.Status()
	require.Equal(t, "other clients", s.Sessions[len(s.Sessions)-1].Name)
	late.Done(OutcomeAnswered)
	require.EqualValues(t, 1, r.Status().Requests[OutcomeAnswered])
	runtime.KeepAlive(r)
}

// A principal with many clients, busy or idle, takes no row from others.
func TestRegistry_is_bounded_by_principal(t *testing.T) {
	for _, busy := range []bool{true, false} {
		r := New()
		open := func(principal string, i int) *Client {
			return r.Open(fmt.Sprint(principal, i), Info{Name: principal, Principal: principal})
		}
		open("ann", 0).Begin(true)
		open("bob", 0)
		for i := range maxKept + 100 {
			c := open("eve", i)
			if busy {
				c.Begin(false)
			}
		}
		require.NotNil(t, r.byKey["bob0"], busy)
		require.Equal(t, map[string]int{"ann": 1, "bob": 1, "eve": maxKept - 2}, r.clients)
		for i := range maxKept {
			c := open("ann", i)
			require.Equal(t, i < maxKept/2, c.Label() == "ann", i)
			c.Begin(true)
		}
		require.Len(t, r.byKey, maxKept)
		require.Equal(t, map[string]int{"ann": maxKept / 2, "bob": 1, "eve": maxKept/2 - 1}, r.clients, "the one that has most makes room")
		require.NotNil(t, r.byKey["bob0"], busy)
		require.Equal(t, "ann", open("ann", 0).Label(), "those of before")
	}
	now := time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	r := newAt(&now)
	r.Open("a", Info{Principal: "ann"})
	now = now.Add(2 * Window)
	r.Status()
	require.Empty(t, r.clients)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// The newest tasks of a client are listed, and all are counted.
func TestTasks(t *testing.T) {
	r := New()
	at := time.Unix(0, 0)
	r.now = func() time.Time { at = at.Add(time.Second); return at }
	c := r.Open("a", Info{Name: "a"})
	var all []*Task
	for range 2 * maxTasks {
		all = append(all, c.OpenTask("s", "t\x1b[2J"+strings.Repeat("x", 2*maxText)))
	}
	all[len(all)-1].SetState("input_required")
	one := r.Status().Sessions[0]
	require.Equal(t, 2*maxTasks, one.Tasks)
	require.Len(t, one.OpenTasks, maxTasks)
	require.Equal(t, "input_required", one.OpenTasks[0].State)
	require.True(t, one.OpenTasks[0].Since.After(one.OpenTasks[1].Since))
	require.NotContains(t, one.OpenTasks[0].Tool, "\x1b")
	require.LessOrEqual(t, len(one.OpenTasks[0].Tool), maxText)
	for range 2 {
		for _, one := range all {
			one.End()
		}
	}
	require.Zero(t, r.Status().Sessions[0].Tasks)
	var none *Client
	none.OpenTask("s", "t").SetState("x")
	none.OpenTask("s", "t").End()
}

// Without a key each client is another one.
func TestRegistry_without_keys(t *testing.T) {
	r := New()
	r.Open("", Info{Name: "a"})
	r.Open("", Info{Name: "b"})
	require.Len(t, r.Status().Sessions, 2)
}
