package facade_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/raw"
)

// lives records when servers in memory begin and end, in order: "+a", "-a".
type lives struct {
	mu  sync.Mutex
	all []string
}

func (l *lives) add(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, s)
}

// take returns what has happened since the last take.
func (l *lives) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

// spec describes a server with the tools echo, and die, which ends it.
func (l *lives) spec(name string, after ...string) mcpvisor.ServerSpec {
	script := mcptest.Script{Tools: []mcptest.ToolDef{{Name: "echo"}, {Name: "die"}}, Faults: []mcptest.Fault{{At: mcptest.StageCall, Tool: "die", Do: mcptest.ActionExit, Code: 1}}}
	return mcpvisor.ServerSpec{Name: name, After: after, StartSupervised: true, Policy: mcpvisor.Retry(5, time.Millisecond),
		InMemory: &mcpvisor.InMemory{Serve: func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, log io.Writer) error {
			l.add("+" + name)
			defer l.add("-" + name)
			return mcptest.InMemory(script).Serve(ctx, in, out, log)
		}}}
}

func die(t *testing.T, c *facade.Client, server string) {
	t.Helper()
	_, err := c.CallTool(t.Context(), server+"/die", nil)
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
}

// awaitRestarts waits until a server is ready after that many restarts.
func awaitRestarts(t *testing.T, c *facade.Client, server string, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		s, _ := c.ServerStatus(server)
		return s.Restarts == n && s.State == supervisor.StateReady
	}, time.Minute, time.Millisecond, server)
}

func TestGroup_starts_and_closes_in_order(t *testing.T) {
	var l lives
	c := newClient(t)
	require.NoError(t, c.SetGroups(t.Context(), []mcpvisor.Group{
		{Name: "back", Members: []string{"db", "cache"}},
		{Name: "front", Members: []string{"api", "web"}, After: []string{"back"}},
	}))
	require.NoError(t, c.Register(t.Context(), l.spec("web"), l.spec("api"), l.spec("cache"), l.spec("db"), l.spec("tool", "api")))
	require.NoError(t, c.WaitReady(t.Context()))
	started := l.take()
	require.Len(t, started, 5)
	before := func(all []string, a, b string) {
		t.Helper()
		require.Less(t, slices.Index(all, a), slices.Index(all, b), all)
	}
	for _, pair := range [][2]string{{"+db", "+cache"}, {"+cache", "+api"}, {"+api", "+web"}, {"+api", "+tool"}} {
		before(started, pair[0], pair[1])
	}
	require.NoError(t, c.Close(t.Context()))
	ended := l.take()
	for _, pair := range [][2]string{{"-web", "-api"}, {"-tool", "-api"}, {"-api", "-cache"}, {"-cache", "-db"}} {
		before(ended, pair[0], pair[1])
	}
}

func TestGroup_strategies(t *testing.T) {
	for strategy, restarted := range map[supervisor.Strategy][]string{
		supervisor.OneForOne: {"b"}, supervisor.RestForOne: {"b", "c"}, supervisor.OneForAll: {"a", "b", "c"},
	} {
		t.Run(string(strategy), func(t *testing.T) {
			var l lives
			c := newClient(t)
			require.NoError(t, c.SetGroups(t.Context(), []mcpvisor.Group{{Name: "g", Members: []string{"a", "b", "c"}, Strategy: strategy}}))
			require.NoError(t, c.Register(t.Context(), l.spec("a"), l.spec("b"), l.spec("c"), l.spec("other")))
			require.NoError(t, c.WaitReady(t.Context()))
			l.take()
			die(t, c, "b")
			for _, name := range restarted {
				awaitRestarts(t, c, name, 1)
			}
			all := l.take()
			for _, name := range []string{"a", "b", "c", "other"} {
				require.Equal(t, slices.Contains(restarted, name), slices.Contains(all, "+"+name), "%s in %v", name, all)
			}
			for i := 1; i < len(restarted); i++ { // as planned: in reverse, and back in order
				require.Less(t, slices.Index(all, "+"+restarted[i-1]), slices.Index(all, "+"+restarted[i]), all)
			}
			for _, name := range restarted {
				s, _ := c.ServerStatus(name)
				if name != "b" {
					require.Zero(t, s.Attempt, "a planned end spends no attempt")
					require.Contains(t, s.LastCause.Message, `group "g" restarts: "b" failed`)
				}
			}
		})
	}
}

func TestGroup_that_fails_is_evicted_as_one_and_starts_again(t *testing.T) {
	var l lives
	c := newClient(t)
	require.NoError(t, c.SetGroups(t.Context(), []mcpvisor.Group{{Name: "g", Members: []string{"a", "b"}, Strategy: supervisor.RestForOne,
		Intensity: supervisor.Intensity{Restarts: 1, Window: time.Hour}}}))
	require.NoError(t, c.Register(t.Context(), l.spec("a"), l.spec("b"), l.spec("other")))
	require.NoError(t, c.WaitReady(t.Context()))
	events := c.Watch(t.Context(), mcpvisor.EventEvicted, mcpvisor.EventGroupFailed)
	die(t, c, "b")
	awaitRestarts(t, c, "b", 1)
	die(t, c, "b")
	var kinds []mcpvisor.EventKind
	for range 3 {
		kinds = append(kinds, (<-events).Kind)
	}
	require.ElementsMatch(t, []mcpvisor.EventKind{mcpvisor.EventEvicted, mcpvisor.EventEvicted, mcpvisor.EventGroupFailed}, kinds)
	require.Eventually(t, func() bool { return c.Groups()[0].State == "given up" }, time.Minute, time.Millisecond)
	require.ErrorContains(t, c.Groups()[0].Cause, `group "g" is evicted: "b" failed`)
	_, err := c.CallTool(t.Context(), "a/echo", nil)
	require.ErrorIs(t, err, mcpvisor.ErrEvicted)
	_, err = c.CallTool(t.Context(), "other/echo", nil)
	require.NoError(t, err)

	require.NoError(t, c.Start(t.Context(), "g"))
	require.NoError(t, c.WaitReady(t.Context(), "a", "b"), "the start is under way")
	awaitRestarts(t, c, "a", 1)
	awaitRestarts(t, c, "b", 2)
	_, err = c.CallTool(t.Context(), "b/echo", nil)
	require.NoError(t, err)
}

func TestGroup_circle_and_double_place_are_refused(t *testing.T) {
	var l lives
	c := newClient(t)
	require.NoError(t, c.SetGroups(t.Context(), []mcpvisor.Group{{Name: "g", Members: []string{"a"}, After: []string{"b"}}}))
	err := c.Register(t.Context(), l.spec("b", "g"))
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	require.ErrorContains(t, err, `wait for each other`)
	require.Empty(t, c.Servers())
	err = c.SetGroups(t.Context(), []mcpvisor.Group{{Name: "g", Members: []string{"a"}}, {Name: "h", Members: []string{"a"}}})
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	require.ErrorContains(t, err, `"a" is in the groups "g" and "h"`)
	require.Len(t, c.Groups(), 1, "nothing was changed")
	require.ErrorIs(t, c.Register(t.Context(), l.spec("g")), mcpvisor.ErrInvalid, "a server with the name of a group")
}

// A server that moves between groups continues.
func TestGroup_move_without_restart(t *testing.T) {
	var l lives
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), l.spec("a"), l.spec("b"), l.spec("c")))
	require.NoError(t, c.WaitReady(t.Context()))
	sets := [][]mcpvisor.Group{
		{{Name: "g", Members: []string{"a", "b"}, Strategy: supervisor.OneForAll}},
		{{Name: "g", Members: []string{"b", "a"}, Strategy: supervisor.OneForAll}},
		{{Name: "g", Members: []string{"b"}}, {Name: "h", Members: []string{"a", "g"}, Strategy: supervisor.RestForOne}},
		{{Name: "g", Members: []string{"b"}}, {Name: "h", Members: []string{"a"}}},
		nil,
	}
	for _, groups := range sets {
		require.NoError(t, c.SetGroups(t.Context(), groups))
		for i := range groups {
			require.Eventually(t, func() bool { return c.Groups()[i].State == "ready" }, time.Minute, time.Millisecond, "%v", groups)
		}
	}
	require.Len(t, l.take(), 3)
	require.NoError(t, c.SetGroups(t.Context(), sets[0]))
	require.Eventually(t, func() bool { return c.Groups()[0].State == "ready" }, time.Minute, time.Millisecond)
	die(t, c, "a")
	awaitRestarts(t, c, "a", 1)
	awaitRestarts(t, c, "b", 1)
	require.ElementsMatch(t, []string{"-a", "-b", "+a", "+b"}, l.take())
}

func TestLazy_server_sleeps_until_it_is_called(t *testing.T) {
	var l lives
	c := newClient(t)
	spec := l.spec("a")
	spec.Start, spec.IdleStop = mcpvisor.StartLazy, time.Second
	events := c.Watch(t.Context(), mcpvisor.EventAsleep, mcpvisor.EventDown)
	require.NoError(t, c.Register(t.Context(), spec))
	e := <-events
	require.Equal(t, mcpvisor.EventAsleep, e.Kind)
	require.ErrorContains(t, e.Cause, "the server is lazy")
	require.Equal(t, []string{"+a", "-a"}, l.take(), "it was started for its lists")
	require.Len(t, c.Tools(), 2)
	s, _ := c.ServerStatus("a")
	require.Equal(t, supervisor.StateAsleep, s.State)
	require.Equal(t, 2, s.Catalog.Tools)

	var wg sync.WaitGroup
	errs := make([]error, 100)
	for i := range errs {
		wg.Go(func() { _, errs[i] = c.CallTool(t.Context(), "a/echo", nil) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Equal(t, []string{"+a"}, l.take(), "one start, however many wait")
	e = <-events
	require.Equal(t, mcpvisor.EventAsleep, e.Kind)
	require.ErrorContains(t, e.Cause, "nothing has used the server for 1s")
	require.Equal(t, []string{"-a"}, l.take())
	require.Len(t, c.Tools(), 2)
}

// A call that comes while a lazy server is started for its lists keeps that incarnation.
func TestLazy_server_is_called_during_its_first_start(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lives
		c := newClient(t)
		opened, called := make(chan struct{}), make(chan error, 32)
		for i := range cap(called) { // one may be lucky
			name := fmt.Sprintf("a%d", i)
			spec := l.spec(name)
			serve := spec.InMemory.Serve
			spec.InMemory = &mcpvisor.InMemory{Serve: func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, log io.Writer) error {
				<-opened
				return serve(ctx, in, out, log)
			}}
			spec.Start = mcpvisor.StartLazy
			require.NoError(t, c.Register(t.Context(), spec))
			go func() {
				_, err := c.CallTool(t.Context(), name+"/echo", nil)
				called <- err
			}()
		}
		synctest.Wait()
		close(opened)
		for range cap(called) {
			require.NoError(t, <-called)
		}
		require.Len(t, l.take(), cap(called), "each was started once")
	})
}

// A task keeps its server awake until its program has the result, or cancels it.
func TestIdle_stop_waits_for_a_task(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t)
		script := mcptest.Script{Tools: []mcptest.ToolDef{{Name: "job", As: "echo", Task: &mcptest.TaskDef{Takes: time.Hour}}}}
		require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "a", InMemory: mcptest.InMemory(script), IdleStop: time.Minute}))
		state := func() supervisor.State {
			time.Sleep(3 * time.Minute)
			synctest.Wait()
			s, _ := c.ServerStatus("a")
			return s.State
		}
		for _, end := range []func(*facade.Task) error{
			func(job *facade.Task) error { _, err := job.Wait(t.Context()); return err },
			func(job *facade.Task) error { return job.Cancel(t.Context()) },
		} {
			job, err := c.StartTask(t.Context(), "a/job", map[string]any{"text": "x"})
			require.NoError(t, err)
			require.Equal(t, supervisor.StateReady, state())
			require.NoError(t, end(job))
			require.Equal(t, supervisor.StateAsleep, state())
		}
	})
}

// What wakes a server that cannot start waits no longer than a call. The subscription remains.
func TestWake_that_waits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lives
		c, err := facade.New()
		require.NoError(t, err)
		api := l.spec("api", "db")
		api.IdleStop, api.Timeouts.Call = time.Second, 10*time.Second
		require.NoError(t, c.Register(t.Context(), l.spec("db"), api))
		time.Sleep(time.Minute)
		require.NoError(t, c.Stop(t.Context(), "db"))
		_, err = c.CallTool(t.Context(), "api/echo", nil)
		require.ErrorIs(t, err, mcpvisor.ErrTimeout)
		require.ErrorContains(t, err, "it waits for db")
		require.ErrorIs(t, c.Refresh(t.Context(), "api"), mcpvisor.ErrTimeout)
		require.ErrorIs(t, c.Subscribe(t.Context(), "api", "mcptest://text"), mcpvisor.ErrTimeout)
		require.NoError(t, c.Start(t.Context(), "db"))
		time.Sleep(time.Minute)
		s, _ := c.ServerStatus("api")
		require.Equal(t, supervisor.StateReady, s.State, "a subscription keeps it awake")
		require.NoError(t, c.Close(t.Context()))
	})
}

// A server that others come after does not sleep while they run.
func TestIdle_stop_waits_for_dependents(t *testing.T) {
	var l lives
	c := newClient(t)
	db, api := l.spec("db"), l.spec("api", "db")
	db.Start, db.IdleStop = mcpvisor.StartLazy, time.Second
	api.Start, api.IdleStop = mcpvisor.StartLazy, time.Second
	events := c.Watch(t.Context(), mcpvisor.EventAsleep)
	require.NoError(t, c.Register(t.Context(), db, api))
	<-events
	<-events
	l.take()
	_, err := c.CallTool(t.Context(), "api/echo", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"+db", "+api"}, l.take(), "the call wakes both, in order")
	require.Equal(t, "api", (<-events).Server)
	require.Equal(t, "db", (<-events).Server)
}

func TestMonitor(t *testing.T) {
	var l lives
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), l.spec("a")))
	require.NoError(t, c.WaitReady(t.Context()))
	ctx, err := c.Monitor(t.Context(), "a")
	require.NoError(t, err)
	require.NoError(t, ctx.Err())
	die(t, c, "a")
	<-ctx.Done()
	var cause *supervisor.Cause
	require.ErrorAs(t, context.Cause(ctx), &cause)
	_, err = c.Monitor(t.Context(), "other")
	require.ErrorIs(t, err, mcpvisor.ErrUnknownServer)
}

// 10,000 calls that meet a server about when it falls asleep: none is lost, none fails, and each start follows an end.
func TestIdle_stop_crosses_calls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lives
		c, err := facade.New()
		require.NoError(t, err)
		spec := l.spec("a")
		spec.Start, spec.IdleStop = mcpvisor.StartLazy, time.Second
		require.NoError(t, c.Register(t.Context(), spec))
		require.NoError(t, c.WaitReady(t.Context()))
		seed, began := time.Now().UnixNano(), time.Now()
		var wg sync.WaitGroup
		for i := range 10 {
			r := rand.New(rand.NewPCG(uint64(seed), uint64(i)))
			wg.Go(func() {
				for n := range 1000 { // at the instants when the use of the server is looked at
					time.Sleep(time.Until(began.Add(time.Duration(6*n+r.IntN(2)) * 250 * time.Millisecond)))
					if _, err := c.CallTool(t.Context(), "a/echo", nil); err != nil {
						t.Errorf("seed %d: %v", seed, err)
						return
					}
				}
			})
		}
		wg.Wait()
		require.NoError(t, c.Close(t.Context()))
		lives := l.take()
		for i, event := range lives {
			require.Equal(t, []string{"+a", "-a"}[i%2], event)
		}
		t.Log(len(lives)/2, "starts")
		require.Greater(t, len(lives), 200)
	})
}

// 100 lazy servers whose lists are kept are listed without a start, and 1,000 first calls start each of them once.
func TestLazy_hundred_servers(t *testing.T) {
	const servers, calls = 100, 1000
	dir := mcpvisor.CatalogDir(t.TempDir())
	var l lives
	var specs []mcpvisor.ServerSpec
	for i := range servers {
		spec := l.spec(fmt.Sprintf("s%d", i))
		spec.Start = mcpvisor.StartLazy
		specs = append(specs, spec)
	}
	first, err := facade.New(facade.WithCatalogStore(dir))
	require.NoError(t, err)
	require.NoError(t, first.Register(t.Context(), specs...))
	require.NoError(t, first.WaitReady(t.Context()))
	require.NoError(t, first.Close(t.Context()))
	require.Len(t, l.take(), 2*servers)

	c := newClient(t, facade.WithCatalogStore(dir))
	began := time.Now()
	require.NoError(t, c.Register(t.Context(), specs...))
	require.Len(t, c.Tools(), 2*servers)
	t.Log("listed after", time.Since(began))
	require.Empty(t, l.take())
	var wg sync.WaitGroup
	errs := make([]error, calls)
	for i := range errs {
		wg.Go(func() { _, errs[i] = c.CallTool(t.Context(), fmt.Sprintf("s%d/echo", i%servers), nil) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Len(t, l.take(), servers, "one start each")
}

func TestInspect(t *testing.T) {
	var l lives
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), l.spec("a"), l.spec("b", "a")))
	require.NoError(t, c.WaitReady(t.Context()))
	die(t, c, "a")
	awaitRestarts(t, c, "a", 1)
	found, ok := c.Inspect("a")
	require.True(t, ok)
	require.Equal(t, supervisor.StateReady, found.State)
	first, last := found.Steps[0], found.Steps[len(found.Steps)-1]
	require.Equal(t, "register", first.Input)
	require.Equal(t, supervisor.StateConnecting, first.To)
	behind, _ := c.Inspect("b")
	require.Equal(t, supervisor.StateWaiting, behind.Steps[0].To, "it comes after the other")
	require.Equal(t, "discovered", last.Input)
	require.Equal(t, []string{"publish", "arm stability timer"}, last.Effects)
	require.Equal(t, map[string]int{"manager": 1, "servers": 1, "groups": 1, "group": 1, "supervisor": 2, "port": 2}, found.Actors)
	for range 40 {
		n := found.Steps[len(found.Steps)-1].Epoch
		require.NoError(t, c.Restart(t.Context(), "a"))
		awaitRestarts(t, c, "a", int(n))
		found, _ = c.Inspect("a")
	}
	require.Len(t, found.Steps, 64)
	require.True(t, slices.IsSortedFunc(found.Steps, func(x, y monitor.Step) int { return x.Time.Compare(y.Time) }))
	_, ok = c.Inspect("c")
	require.False(t, ok)
}

// A process that exits with 0 after its work rests, is listed, and starts when it is called. One that fails does not rest.
func TestTransient(t *testing.T) {
	c := newClient(t)
	script := mcptest.Script{Tools: []mcptest.ToolDef{{Name: "work"}, {Name: "fail"}}, Faults: []mcptest.Fault{
		{At: mcptest.StageAfter, Tool: "work", Do: mcptest.ActionExit, Code: 0},
		{At: mcptest.StageAfter, Tool: "fail", Do: mcptest.ActionExit, Code: 1}}}
	events := c.Watch(t.Context(), mcpvisor.EventAsleep, mcpvisor.EventDown, mcpvisor.EventRetry, mcpvisor.EventEvicted)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(script), Transient: true}))
	for i := range 3 { // it has no attempts, and needs none
		_, err := c.CallTool(t.Context(), "s/work", nil)
		require.NoError(t, err)
		e := <-events
		require.Equal(t, mcpvisor.EventAsleep, e.Kind)
		s, _ := c.ServerStatus("s")
		require.Equal(t, supervisor.StateResting, s.State)
		require.Zero(t, s.Attempt)
		require.Len(t, c.Tools(), 2)
		// No text, count or time says that it has failed.
		require.Contains(t, e.String(), "s is at rest: the server has done its work: ")
		require.Nil(t, s.DownSince)
		require.True(t, s.LastCause.Asked())
		require.True(t, s.History[i].Cause.Asked())
		require.Equal(t, map[supervisor.CauseKind]int64{supervisor.CauseRequested: int64(i + 1)}, s.Totals.Ends)
	}
	_, err := c.CallTool(t.Context(), "s/fail", nil)
	require.NoError(t, err)
	require.Equal(t, mcpvisor.EventDown, (<-events).Kind)
	require.Equal(t, mcpvisor.EventEvicted, (<-events).Kind)
	require.Empty(t, c.Tools())
}

// lingering is like spec, but the server does not end before it may.
func (l *lives) lingering(name string, may <-chan struct{}, after ...string) mcpvisor.ServerSpec {
	spec := l.spec(name, after...)
	serve := spec.InMemory.Serve
	spec.InMemory = &mcpvisor.InMemory{Serve: func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, log io.Writer) error {
		err := serve(ctx, in, out, log)
		<-may
		return err
	}}
	return spec
}

// The end of servers goes on when the groups that order it are removed.
func TestSetGroups_while_servers_end(t *testing.T) {
	var l lives
	c := newClient(t)
	may := make(chan struct{})
	require.NoError(t, c.SetGroups(t.Context(), []mcpvisor.Group{{Name: "g", Members: []string{"a", "b"}}}))
	require.NoError(t, c.Register(t.Context(), l.spec("a"), l.lingering("b", may)))
	require.NoError(t, c.WaitReady(t.Context()))
	events := c.Watch(t.Context(), mcpvisor.EventDown)
	ended := make(chan error)
	go func() { ended <- c.Apply(t.Context(), nil) }()
	require.Equal(t, "b", (<-events).Server)
	require.NoError(t, c.SetGroups(t.Context(), nil))
	close(may)
	require.NoError(t, <-ended)
	require.ElementsMatch(t, []string{"+a", "+b", "-b", "-a"}, l.take())
}

// A server that was replaced by one that comes after no other is no reason to wait.
func TestClose_after_a_replacement_without_order(t *testing.T) {
	var l lives
	c := newClient(t)
	b := l.spec("b", "a")
	b.Overlap = true
	require.NoError(t, c.Register(t.Context(), l.spec("a"), b, l.spec("other"), l.spec("last", "other"), l.spec("gone")))
	require.NoError(t, c.WaitReady(t.Context()))
	begun, start, may := make(chan struct{}), make(chan struct{}), make(chan struct{})
	next := l.lingering("b", may)
	serve := next.InMemory.Serve
	next.Overlap, next.InMemory = true, &mcpvisor.InMemory{Serve: func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, log io.Writer) error {
		close(begun)
		<-start
		return serve(ctx, in, out, log)
	}}
	applied := make(chan error)
	go func() { applied <- c.Apply(t.Context(), []mcpvisor.ServerSpec{next}, facade.KeepOthers) }()
	<-begun
	require.NoError(t, c.Unregister(t.Context(), "gone"))
	close(start)
	require.NoError(t, <-applied)
	events := c.Watch(t.Context(), mcpvisor.EventUnregistered)
	closed := make(chan error)
	go func() { closed <- c.Close(t.Context()) }()
	for e := range events {
		if e.Server == "a" {
			break
		}
	}
	close(may)
	require.NoError(t, <-closed)
}

// A lazy server that announces a change of its tools while they are listed is listed again before it sleeps.
func TestLazy_server_sleeps_when_its_changes_are_listed(t *testing.T) {
	var listings atomic.Int32
	server := raw.Server{Capabilities: `{"tools":{"listChanged":true}}`, Answer: func(m *raw.Message) string {
		if m.Method != "tools/list" {
			return ""
		}
		if listings.Add(1) == 1 {
			m.Send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			return `"result":{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`
		}
		return `"result":{"tools":[{"name":"x","inputSchema":{"type":"object"}},{"name":"y","inputSchema":{"type":"object"}}]}`
	}}
	c := newClient(t)
	events := c.Watch(t.Context(), mcpvisor.EventAsleep)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "a", Era: mcpvisor.EraLegacy, Start: mcpvisor.StartLazy, StartSupervised: true, InMemory: &mcpvisor.InMemory{Serve: server.Serve}}))
	<-events
	require.Len(t, c.Tools(), 2)
}

// A server in the delay before its next start waits when what it comes after is stopped meanwhile.
func TestAfter_counts_when_the_delay_ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lives
		c, err := facade.New()
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close(context.Background())) }()
		api := l.spec("api", "db")
		api.Policy = mcpvisor.Retry(5, time.Minute)
		require.NoError(t, c.Register(t.Context(), l.spec("db"), api))
		require.NoError(t, c.WaitReady(t.Context()))
		die(t, c, "api")
		synctest.Wait()
		require.NoError(t, c.Stop(t.Context(), "db"))
		time.Sleep(time.Hour)
		require.Equal(t, []string{"+db", "+api", "-api", "-db"}, l.take())
		require.NoError(t, c.Start(t.Context(), "db"))
		require.NoError(t, c.WaitReady(t.Context()))
		require.Equal(t, []string{"+db", "+api"}, l.take())
	})
}

// A server whose first order in a group is its end, because the group fails at once, belongs to the group nevertheless: the
// operator's restart waits for what the group comes after.
func TestGroup_that_fails_at_once(t *testing.T) {
	c := newClient(t)
	spec := func(name string) mcpvisor.ServerSpec {
		return mcpvisor.ServerSpec{Name: name, InMemory: mcptest.InMemory(mcptest.Script{}), Policy: supervisor.Retry(-1, 10*time.Millisecond)}
	}
	require.NoError(t, c.Register(t.Context(), spec("db"), spec("app"), spec("web")))
	require.NoError(t, c.Fence(t.Context(), "db", "lost"))
	ready := c.Watch(t.Context(), mcpvisor.EventReady)
	for range 2 {
		_, err := c.CallTool(t.Context(), "app/crash", nil)
		require.ErrorIs(t, err, mcpvisor.ErrCrashed)
		<-ready
	}
	failed := c.Watch(t.Context(), mcpvisor.EventGroupFailed)
	require.NoError(t, c.SetGroups(t.Context(), []mcpvisor.Group{{Name: "g", Members: []string{"app", "web"}, Strategy: supervisor.RestForOne, After: []string{"db"},
		Intensity: supervisor.Intensity{Restarts: 1, Window: time.Minute}, WhenSpent: supervisor.SpentEvict}}))
	<-failed
	for _, name := range []string{"app", "web"} {
		until(t, func() bool { s, _ := c.ServerStatus(name); return s.State == supervisor.StateEvicted })
		require.NoError(t, c.Restart(t.Context(), name))
		s, _ := c.ServerStatus(name)
		require.Equal(t, supervisor.StateWaiting, s.State)
		require.Contains(t, s.WaitsFor, "db")
	}
}

// Members that leave a group together do not start because the one in front leaves first.
func TestSetGroups_members_that_leave_together(t *testing.T) {
	c := newClient(t)
	spec := func(name string) mcpvisor.ServerSpec {
		return mcpvisor.ServerSpec{Name: name, InMemory: mcptest.InMemory(mcptest.Script{}), Policy: supervisor.Retry(3, 10*time.Millisecond), StartSupervised: true}
	}
	flat := []mcpvisor.Group{{Name: "g", Members: []string{"a", "db", "app"}, Strategy: supervisor.RestForOne}}
	deep := []mcpvisor.Group{{Name: "g", Members: []string{"a", "inner"}, Strategy: supervisor.RestForOne}, {Name: "inner", Members: []string{"db", "app"}, Strategy: supervisor.OneForAll}}
	require.NoError(t, c.SetGroups(t.Context(), flat))
	require.NoError(t, c.Register(t.Context(), spec("a"), spec("db")))
	require.NoError(t, c.Fence(t.Context(), "db", "lost"))
	waiting := c.Watch(t.Context(), mcpvisor.EventWaiting)
	require.NoError(t, c.Register(t.Context(), spec("app")))
	require.Equal(t, "app", (<-waiting).Server)
	for i := range 40 { // in some order
		groups := flat
		if i%2 == 0 {
			groups = deep
		}
		require.NoError(t, c.SetGroups(t.Context(), groups))
		until(t, func() bool {
			all := c.Groups()
			return len(all) == len(groups) && (all[len(all)-1].State == "blocked" || all[len(all)-1].State == "ready")
		})
		s, _ := c.ServerStatus("app")
		require.Zero(t, s.Epoch, "round %d: %s", i, s.State)
	}
}
