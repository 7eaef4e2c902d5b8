package actors

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// setGroups registers servers and their groups.
func (h *harness) setGroups(groups []mcpvisor.Group, names ...string) {
	h.t.Helper()
	require.NoError(h.t, h.rt.SetGroups(context.Background(), groups))
	var specs []mcpvisor.ServerSpec
	for _, name := range names {
		h.script(name, script{tools: []string{"ls"}})
		specs = append(specs, mcpvisor.ServerSpec{Name: name, StartSupervised: true, Policy: supervisor.Retry(20, time.Second)})
	}
	for _, err := range h.rt.RegisterAll(context.Background(), specs) {
		require.NoError(h.t, err)
	}
	synctest.Wait()
	for _, name := range names {
		require.Equal(h.t, supervisor.StateReady, h.state(name), name)
	}
}

// Groups that crash are started again from what their members report: no server ends for that, and the strategies hold.
func TestGroupPanicKeepsServers(t *testing.T) {
	for what, crash := range map[string]func(h *harness, name string){
		"group": func(h *harness, name string) {
			h.send(h.rt.groupsState.nodes[name].pid, (*groupInput)(nil))
		},
		"all groups": func(h *harness, _ string) { h.send(h.rt.groups.Load(), (*memberReport)(nil)) },
		"manager":    func(h *harness, _ string) { h.crashManager() },
	} {
		runWithHarness(t, what, func(t *testing.T, h *harness) {
			h.setGroups([]mcpvisor.Group{
				{Name: "in", Members: []string{"c", "d"}, Strategy: supervisor.OneForAll},
				{Name: "out", Members: []string{"a", "b", "in"}, Strategy: supervisor.RestForOne},
			}, "a", "b", "c", "d", "e")
			sessions := func() (n []int) {
				for _, name := range []string{"a", "b", "c", "d", "e"} {
					n = append(n, len(h.sessions(name)))
				}
				return n
			}
			want := []int{1, 1, 1, 1, 1}
			for i, name := range []string{"out", "in", "", "in", "out"} {
				crash(h, name)
				time.Sleep(time.Minute)
				require.Equal(t, want, sessions(), "a crash of a group ends nothing")
				h.session("b").Abort(errScripted)
				time.Sleep(time.Minute)
				want[1], want[2], want[3] = want[1]+1, want[2]+1, want[3]+1
				require.Equal(t, want, sessions(), "b and what is behind it")
				h.session("d").Abort(errScripted)
				time.Sleep(time.Minute)
				want[2], want[3] = want[2]+1, want[3]+1
				require.Equal(t, want, sessions(), "the inner group, crash %d", i)
			}
		})
	}
}

// A parent of the groups that crashes again and again is started again after pauses that grow.
func TestGroupsPanicAgainAndAgain(t *testing.T) {
	runWithHarness(t, "crashes", func(t *testing.T, h *harness) {
		h.setGroups([]mcpvisor.Group{{Name: "g", Members: []string{"a", "b"}, Strategy: supervisor.OneForAll}}, "a", "b")
		for _, pause := range []time.Duration{0, 10 * time.Millisecond, 20 * time.Millisecond} {
			crashed := h.rt.groups.Load()
			h.send(crashed, (*memberReport)(nil))
			time.Sleep(pause / 2)
			require.True(t, pause == 0 || crashed == h.rt.groups.Load(), "not yet after %v", pause/2)
			time.Sleep(pause)
			synctest.Wait()
			require.NotSame(t, crashed, h.rt.groups.Load())
		}
		h.session("b").Abort(errScripted)
		time.Sleep(time.Minute)
		require.Len(t, h.sessions("a"), 2)
	})
}

// A group that crashes while its members are being restarted, at any moment, completes the restart.
func TestGroupPanicDuringRestart(t *testing.T) {
	for after := range 12 {
		runWithHarness(t, fmt.Sprint(after), func(t *testing.T, h *harness) {
			h.setGroups([]mcpvisor.Group{{Name: "g", Members: []string{"a", "b", "c"}, Strategy: supervisor.OneForAll}}, "a", "b", "c")
			h.session("b").Abort(errScripted)
			time.Sleep(time.Duration(after) * 100 * time.Millisecond)
			h.send(h.rt.groupsState.nodes["g"].pid, (*groupInput)(nil))
			time.Sleep(time.Minute)
			for _, name := range []string{"a", "b", "c"} {
				require.Equal(t, supervisor.StateReady, h.state(name))
				require.Len(t, h.sessions(name), 2, name)
			}
		})
	}
}

// Servers that would wait for each other when both are replaced are refused, however they are replaced: the client could
// not be closed. An order that is turned round is no circle.
func TestReplacementsWithoutCircle(t *testing.T) {
	for _, overlap := range []bool{false, true} {
		runWithHarness(t, fmt.Sprint("overlap ", overlap), func(t *testing.T, h *harness) {
			a, b := specOf("a", "b"), specOf("b")
			a.Overlap, b.Overlap = overlap, overlap
			h.script("a", script{openAfter: time.Second})
			h.script("b", script{openAfter: time.Second})
			for _, err := range h.rt.RegisterAll(context.Background(), []mcpvisor.ServerSpec{a, b}) {
				require.NoError(t, err)
			}
			time.Sleep(time.Minute)
			a.After, b.After = nil, []string{"a"}
			errs := h.replaceAll(b, a)
			if require.NoError(t, errs[1]); overlap { // until the new one is ready, the old one may stay
				require.ErrorContains(t, errs[0], `"a" → "b" → "a" wait for each other`)
				time.Sleep(time.Minute)
				errs = h.replaceAll(b)
			}
			require.NoError(t, errs[0])
			time.Sleep(time.Minute)
			a.After = []string{"b"}
			require.ErrorIs(t, h.replaceAll(a)[0], mcpvisor.ErrInvalid)
			require.Equal(t, supervisor.StateReady, h.state("a"))
			require.Equal(t, supervisor.StateReady, h.state("b"))
		})
		runWithHarness(t, fmt.Sprint("at once, overlap ", overlap), func(t *testing.T, h *harness) {
			a, b := specOf("a"), specOf("b")
			a.Overlap, b.Overlap = overlap, overlap
			h.script("a", script{openAfter: time.Second})
			h.script("b", script{openAfter: time.Second})
			h.register(a)
			h.register(b)
			time.Sleep(time.Minute)
			a.After, b.After = []string{"b"}, []string{"a"}
			errs := h.replaceAll(a, b)
			require.NoError(t, errs[0])
			require.ErrorIs(t, errs[1], mcpvisor.ErrInvalid)
		})
	}
}

// A server that was replaced while it ran ends before what only its new spec comes after.
func TestReplacementChangesOrder(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("a", script{releaseAfter: 5 * time.Second})
		h.script("b", script{})
		h.script("c", script{})
		a := specOf("a")
		a.Overlap = true
		for _, spec := range []mcpvisor.ServerSpec{a, specOf("b"), specOf("c", "b")} {
			h.register(spec)
		}
		a.After = []string{"b"}
		require.NoError(t, h.replaceAll(a)[0])
		time.Sleep(time.Minute)
		events := h.events()
		require.NoError(t, h.rt.Close(context.Background()))
		last := ""
		for _, e := range events() {
			if e.Kind == mcpvisor.EventUnregistered {
				last = e.Server
			}
		}
		require.Equal(t, "b", last)
	})
}

// A server that was evicted stays so when another one is registered with an order.
func TestOrderStartsNoEvictedServer(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("bad", script{openErr: errScripted})
		h.script("a", script{})
		h.script("b", script{})
		bad := specOf("bad")
		bad.Policy = supervisor.NoRetry()
		h.register(bad)
		h.register(specOf("a"))
		h.register(specOf("b", "a"))
		require.Equal(t, supervisor.StateEvicted, h.state("bad"))
		require.Len(t, h.sessions("bad"), 1)
		require.NoError(t, h.rt.Start(t.Context(), "bad"))
		time.Sleep(time.Minute)
		require.Len(t, h.sessions("bad"), 2, "only Start starts it")
	})
}

// What a server waits for is what is not ready now, and one wait is one event.
func TestWaitsFor(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("a", script{})
		h.script("b", script{openErr: errScripted})
		h.script("c", script{})
		events := h.events()
		for _, err := range h.rt.RegisterAll(context.Background(), []mcpvisor.ServerSpec{specOf("c", "a", "b"), specOf("a"), specOf("b")}) {
			require.NoError(t, err)
		}
		require.Equal(t, supervisor.StateReady, h.state("a"))
		waitsFor := func() []string {
			h.settle()
			return h.rt.Snapshot().Server("c").Status().WaitsFor
		}
		require.Equal(t, []string{"b"}, waitsFor())
		require.NoError(t, h.rt.Restart(t.Context(), "c"))
		h.crashManager()
		require.Equal(t, []string{"b"}, waitsFor())
		require.NoError(t, h.rt.SetGroups(t.Context(), []mcpvisor.Group{{Name: "g", Members: []string{"d", "c"}}}))
		require.Equal(t, []string{"b"}, waitsFor(), "it is not known what is registered later")
		h.script("d", script{openErr: errScripted})
		h.register(specOf("d"))
		require.Equal(t, []string{"b", "d"}, waitsFor())
		n := 0
		for _, e := range events() {
			if e.Kind == mcpvisor.EventWaiting && e.Server == "c" {
				n++
			}
		}
		require.Equal(t, 1, n)
		require.NoError(t, h.rt.Close(context.Background()))
		require.Empty(t, h.rt.Snapshot().Groups())
	})
}

// A server that falls asleep in the moment when one that comes after it wakes is woken, too.
func TestSleepCrossesWake(t *testing.T) {
	for i := range 20 {
		runWithHarness(t, fmt.Sprint(i), func(t *testing.T, h *harness) {
			h.script("db", script{})
			h.script("api", script{openAfter: time.Second})
			db, api := specOf("db"), specOf("api", "db")
			db.IdleStop, api.IdleStop = time.Hour, 10*time.Second
			h.register(db)
			h.register(api)
			time.Sleep(time.Minute)
			require.Equal(t, supervisor.StateAsleep, h.state("api"))
			v := h.rt.Snapshot().Server("db")
			h.rt.post(&messages.Operate{Name: "api", Order: messages.OrderWake})
			h.rt.post(&restRequest{name: "db", gen: v.Gen, epoch: v.Epoch})
			time.Sleep(5 * time.Second)
			require.Equal(t, supervisor.StateReady, h.state("api"))
			require.Equal(t, supervisor.StateReady, h.state("db"))
		})
	}
}

// Servers that are replaced together end in order, in whichever order their specs come.
func TestReplacementsEndInOrder(t *testing.T) {
	for _, turned := range []bool{false, true} {
		runWithHarness(t, fmt.Sprint("turned ", turned), func(t *testing.T, h *harness) {
			specs := []mcpvisor.ServerSpec{specOf("db"), specOf("api", "db")}
			h.script("db", script{})
			h.script("api", script{releaseAfter: time.Second})
			h.register(specs[0])
			h.register(specs[1])
			events := h.events()
			if turned {
				specs[0], specs[1] = specs[1], specs[0]
			}
			require.Equal(t, []error{nil, nil}, h.replaceAll(specs...))
			time.Sleep(time.Minute)
			var ends []string
			for _, e := range events() {
				if e.Kind == mcpvisor.EventUnregistered {
					ends = append(ends, e.Server)
				}
			}
			require.Equal(t, []string{"api", "db"}, ends)
			require.Equal(t, supervisor.StateReady, h.state("api"))
		})
	}
}

// The caller of Register has an answer, and nothing stays registered, when a fence or the group ends the first start,
// even before it began.
func TestFirstStartEndsInWaitOrGroup(t *testing.T) {
	runWithHarness(t, "fence", func(t *testing.T, h *harness) {
		h.script("a", script{})
		register := h.background(func() error {
			return h.rt.Register(context.Background(), mcpvisor.ServerSpec{Name: "a", After: []string{"b"}})
		})
		require.Equal(t, supervisor.StateWaiting, h.state("a"))
		require.NoError(t, h.rt.Fence(t.Context(), "a", "lost"))
		require.ErrorContains(t, register(), "fenced: lost")
		require.Nil(t, h.rt.Snapshot().Server("a"))
	})
	for name, s := range map[string]script{"waits": {}, "starts": {openHangs: true}} {
		runWithHarness(t, "group, it "+name, func(t *testing.T, h *harness) {
			h.setGroups([]mcpvisor.Group{{Name: "g", Members: []string{"a", "b"}, Intensity: supervisor.Intensity{Restarts: 1, Window: time.Hour}}}, "a")
			h.script("b", s)
			fail := func() { h.session("a").Abort(errScripted); time.Sleep(time.Minute) }
			if fail(); name == "waits" {
				fail()
			}
			register := h.background(func() error { return h.rt.Register(context.Background(), mcpvisor.ServerSpec{Name: "b"}) })
			if time.Sleep(time.Second); name == "starts" {
				fail()
			}
			err := register()
			require.ErrorIs(t, err, mcpvisor.ErrStart)
			require.ErrorContains(t, err, `group "g" is evicted: "a" failed`)
			require.Nil(t, h.rt.Snapshot().Server("b"))
		})
	}
}

// A group of servers is ready for one that comes after it when all of them are, each time it starts: those that sleep are woken,
// and it waits for one that is stopped, as for a single server.
func TestAfterGroup(t *testing.T) {
	for what, end := range map[string]func(h *harness, db *mcpvisor.ServerSpec) func(){
		"asleep": func(_ *harness, db *mcpvisor.ServerSpec) func() {
			db.Start, db.IdleStop = mcpvisor.StartLazy, time.Minute
			return func() {}
		},
		"stopped": func(h *harness, _ *mcpvisor.ServerSpec) func() {
			return func() { require.NoError(h.t, h.rt.Stop(context.Background(), "db", false)) }
		},
		"down": func(h *harness, db *mcpvisor.ServerSpec) func() {
			db.Policy = supervisor.Retry(20, time.Hour)
			return func() { h.session("db").Abort(errScripted) }
		},
	} {
		for _, nested := range []bool{false, true} {
			runWithHarness(t, fmt.Sprint(what, " nested ", nested), func(t *testing.T, h *harness) {
				groups := []mcpvisor.Group{{Name: "g", Members: []string{"db"}}, {Name: "all", Members: []string{"g", "api"}, Strategy: supervisor.RestForOne}}
				db, api := specOf("db"), specOf("api")
				if api.Start, api.IdleStop = mcpvisor.StartLazy, 5*time.Minute; !nested {
					groups, api.After = groups[:1], []string{"g"}
				}
				h.setGroups(groups)
				h.script("db", script{})
				h.script("api", script{})
				then := end(h, &db)
				h.register(db)
				h.register(api)
				time.Sleep(time.Hour)
				require.Equal(t, supervisor.StateAsleep, h.state("api"))
				then()
				require.NotEqual(t, supervisor.StateReady, h.state("db"))
				h.rt.post(&messages.Operate{Name: "api", Order: messages.OrderWake})
				if time.Sleep(time.Second); what == "asleep" {
					require.Equal(t, supervisor.StateReady, h.state("db"))
					require.Equal(t, supervisor.StateReady, h.state("api"))
					return
				}
				require.Equal(t, supervisor.StateWaiting, h.state("api"))
				require.Equal(t, []string{"db"}, h.rt.Snapshot().Server("api").Status().WaitsFor)
				require.NoError(t, h.rt.Start(t.Context(), "db"))
				require.Equal(t, supervisor.StateReady, h.state("api"))
			})
		}
	}
}

// With one_for_one the order is that of the start: a member sleeps while one behind it runs, and that one restarts without it.
func TestOneForOneIsNoDependence(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("a", script{})
		h.script("b", script{})
		require.NoError(t, h.rt.SetGroups(t.Context(), []mcpvisor.Group{{Name: "g", Members: []string{"a", "b"}}}))
		a := specOf("a")
		a.Start, a.Policy = mcpvisor.StartLazy, supervisor.Retry(20, time.Hour)
		for _, err := range h.rt.RegisterAll(context.Background(), []mcpvisor.ServerSpec{a, specOf("b")}) {
			require.NoError(t, err)
		}
		time.Sleep(time.Minute)
		require.Equal(t, supervisor.StateAsleep, h.state("a"))
		events := h.events()
		h.session("b").Abort(errScripted)
		time.Sleep(time.Minute)
		require.Equal(t, supervisor.StateAsleep, h.state("a"))
		require.NoError(t, h.rt.Start(t.Context(), "a"))
		h.settle()
		h.session("a").Abort(errScripted)
		require.Equal(t, supervisor.StateBackoff, h.state("a"))
		h.session("b").Abort(errScripted)
		time.Sleep(time.Minute)
		require.Equal(t, supervisor.StateReady, h.state("b"))
		require.NotContains(t, kinds(events()), mcpvisor.EventWaiting, "it waits for none")
	})
}

// A group that has failed says so once, and why, also when it is made again or changed.
func TestGroupFailureIsToldOnce(t *testing.T) {
	groups := func(restarts int) []mcpvisor.Group {
		return []mcpvisor.Group{{Name: "g", Members: []string{"a", "b"}, Intensity: supervisor.Intensity{Restarts: restarts, Window: time.Hour}}}
	}
	for what, again := range map[string]func(h *harness){
		"panic":  func(h *harness) { h.send(h.rt.groupsState.nodes["g"].pid, (*groupInput)(nil)) },
		"change": func(h *harness) { require.NoError(h.t, h.rt.SetGroups(context.Background(), groups(2))) },
	} {
		runWithHarness(t, what, func(t *testing.T, h *harness) {
			events := h.events()
			h.setGroups(groups(1), "a", "b")
			for range 2 {
				h.session("a").Abort(errScripted)
				time.Sleep(time.Minute)
			}
			require.ErrorContains(t, h.rt.Snapshot().Groups()[0].Cause, "more than 1 failures")
			again(h)
			time.Sleep(time.Minute)
			for _, e := range events() {
				require.NotContains(t, e.String(), "of 20 restarts", "the group gave it up, and not its policy")
			}
			_, err := h.call(t.Context(), "a", time.Minute)
			require.ErrorContains(t, err, "start the group")
			told := slices.DeleteFunc(kinds(events()), func(k mcpvisor.EventKind) bool { return k != mcpvisor.EventGroupFailed })
			require.Len(t, told, 1)
			require.Equal(t, "given up", h.rt.Snapshot().Groups()[0].State)
			require.ErrorContains(t, h.rt.Snapshot().Groups()[0].Cause, "more than 1 failures")
		})
	}
}

// A server sleeps, and is not woken again and again, while all members of a group that comes after it sleep.
func TestSleepBeforeASleepingGroup(t *testing.T) {
	for _, nested := range []bool{false, true} {
		runWithHarness(t, fmt.Sprint("nested ", nested), func(t *testing.T, h *harness) {
			groups := []mcpvisor.Group{{Name: "g", Members: []string{"api"}, After: []string{"db"}}}
			if nested {
				groups = []mcpvisor.Group{{Name: "g", Members: []string{"api"}}, {Name: "all", Members: []string{"db", "g"}, Strategy: supervisor.OneForAll}}
			}
			h.setGroups(groups)
			h.script("db", script{})
			h.script("api", script{})
			for _, name := range []string{"db", "api"} {
				spec := specOf(name)
				spec.IdleStop = time.Minute
				h.register(spec)
			}
			time.Sleep(time.Hour)
			require.Equal(t, supervisor.StateAsleep, h.state("db"))
			require.Len(t, h.sessions("db"), 1)
		})
	}
}

// What runs nothing, and does not start now, keeps what it comes after no longer awake: it is woken for the next start.
func TestSleepBeforeOneThatIsDown(t *testing.T) {
	group := mcpvisor.Group{Name: "g", Members: []string{"api"}, Intensity: supervisor.Intensity{Restarts: 1, Window: 3 * time.Hour}, WhenSpent: supervisor.SpentPark, ParkEvery: 2 * time.Hour}
	for what, row := range map[string]struct {
		groups []mcpvisor.Group
		state  supervisor.State
	}{
		"parked":                     {nil, supervisor.StateParked},
		"in a parked group":          {[]mcpvisor.Group{group}, supervisor.StateWaiting},
		"in a group in a parked one": {[]mcpvisor.Group{{Name: "outer", Members: []string{"g"}, Intensity: group.Intensity, WhenSpent: supervisor.SpentPark, ParkEvery: 2 * time.Hour}, {Name: "g", Members: []string{"api"}, Intensity: group.Intensity}}, supervisor.StateWaiting},
		"behind a stopped one":       {nil, supervisor.StateWaiting},
	} {
		runWithHarness(t, what, func(t *testing.T, h *harness) {
			require.NoError(t, h.rt.SetGroups(t.Context(), row.groups))
			for _, name := range []string{"db", "x", "api"} {
				h.script(name, script{openAfter: time.Second})
			}
			db, api := specOf("db"), specOf("api", "db", "x")
			db.IdleStop, api.Policy = time.Minute, supervisor.Policy{MaxAttempts: 2, Base: time.Second, ParkEvery: 2 * time.Hour}
			h.register(db)
			h.register(specOf("x"))
			h.register(api)
			time.Sleep(time.Hour)
			require.Equal(t, supervisor.StateReady, h.state("db"), "api runs")
			if what == "behind a stopped one" {
				require.NoError(t, h.rt.Stop(t.Context(), "x", false))
			}
			for h.state("api") != row.state {
				require.Equal(t, supervisor.StateReady, h.state("db"), "api starts")
				if h.state("api") == supervisor.StateReady {
					h.session("api").Abort(errScripted)
				}
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(time.Hour)
			require.Equal(t, supervisor.StateAsleep, h.state("db"))
			if what == "behind a stopped one" {
				require.NoError(t, h.rt.Start(t.Context(), "x"))
			}
			time.Sleep(2 * time.Hour)
			require.Equal(t, supervisor.StateReady, h.state("api"))
			require.Equal(t, supervisor.StateReady, h.state("db"))
		})
	}
}

// A group that goes and comes back in one moment, of which the group itself hears nothing, is shown as it is.
func TestGroupComesBack(t *testing.T) {
	for i := range 10 {
		runWithHarness(t, fmt.Sprint(i), func(t *testing.T, h *harness) {
			groups := []mcpvisor.Group{{Name: "g", Members: []string{"a"}}}
			h.setGroups(groups, "a")
			h.script("b", script{})
			register := make(chan error, 1)
			spec := specOf("b")
			h.rt.post(&messages.RegisterAll{All: []*messages.Register{{Spec: spec, Reply: register}}}) // until its actor is known, no group is told of a change
			for _, groups := range [][]mcpvisor.Group{nil, groups} {
				h.rt.post(&messages.SetGroups{Groups: groups, Reply: make(chan error, 1)})
			}
			require.NoError(t, <-register)
			h.settle()
			require.Equal(t, "ready", h.rt.Snapshot().Groups()[0].State)
		})
	}
}

// A group whose members all change, and which comes after another one no longer, does not wait for that.
func TestSetGroupsWithoutAfter(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		for _, name := range []string{"a", "b", "c"} {
			h.script(name, script{})
		}
		groups := []mcpvisor.Group{{Name: "g", Members: []string{"a"}}, {Name: "h", Members: []string{"b"}, After: []string{"g"}}}
		require.NoError(t, h.rt.SetGroups(t.Context(), groups))
		h.register(specOf("a"))
		require.NoError(t, h.rt.Stop(t.Context(), "a", false))
		h.register(specOf("b"))
		h.register(specOf("c", "b"))
		require.Equal(t, supervisor.StateWaiting, h.state("b"))
		groups[1] = mcpvisor.Group{Name: "h", Members: []string{"c"}}
		require.NoError(t, h.rt.SetGroups(t.Context(), groups))
		require.Equal(t, supervisor.StateReady, h.state("b"))
		require.Equal(t, supervisor.StateReady, h.state("c"))
	})
}
