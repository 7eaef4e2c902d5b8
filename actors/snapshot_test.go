package actors

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// bigRegistry is many ready servers with many tools each.
func bigRegistry(servers, tools int) *Snapshot {
	views := make(map[string]*View, servers)
	for i := range servers {
		name := "server-" + strconv.Itoa(i)
		views[name] = bigView(name, tools)
	}
	return newSnapshot(views, false)
}

func bigView(name string, tools int) *View {
	list := make([]mcpvisor.Tool, tools)
	for i := range list {
		own := fmt.Sprintf("tool_%04d", i)
		if i%10 == 0 {
			own = fmt.Sprintf("tool.%04d", i) // an alias with a hash
		}
		list[i] = mcpvisor.Tool{Name: mcpvisor.Qualify(name, own), Server: name, OriginalName: own,
			Alias: mcpvisor.Alias(name, own), Definition: &mcp.Tool{Name: own}}
	}
	return &View{Name: name, State: supervisor.StateReady, Catalog: catalog.New(catalog.Catalog{Tools: list}), stats: newRegistrationStats()}
}

// A change of one server must not copy what the others offer.
func TestSnapshotChangeCopiesNoCatalog(t *testing.T) {
	s := bigRegistry(500, 100)
	require.Len(t, s.Tools(), 50_000)
	changed := bigView("server-250", 101)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	next := s.withAll(map[string]*View{"server-250": changed})
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(6_000), "bytes for one change among 500 servers: a pointer for each")
	require.Len(t, next.Tools(), 50_001)
	require.Len(t, s.Tools(), 50_000, "who still looks at the old one sees the old one")
	runtime.ReadMemStats(&before)
	gone := next.withAll(map[string]*View{"server-250": nil})
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(6_000), "bytes for the removal of one server")
	require.Len(t, gone.Tools(), 49_900)
}

// Whatever comes, changes or goes in one swap, a snapshot shows what a map would, and the
// snapshots before it show what they did.
func TestSnapshotWithAll(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	want, s := map[string]*View{}, newSnapshot(nil, false)
	for range 500 {
		before, wantBefore := s, maps.Clone(want)
		changed := map[string]*View{}
		for range 1 + random.IntN(4) {
			name := string(rune('a' + random.IntN(6)))
			if changed[name] = nil; random.IntN(2) == 0 {
				changed[name] = &View{Name: name}
			}
		}
		for name, v := range changed {
			if want[name] = v; v == nil {
				delete(want, name)
			}
		}
		s = s.withAll(changed)
		requireViews(t, want, s)
		requireViews(t, wantBefore, before)
	}
}

func requireViews(t *testing.T, want map[string]*View, s *Snapshot) {
	t.Helper()
	require.True(t, slices.IsSorted(s.Names()))
	require.ElementsMatch(t, slices.Collect(maps.Keys(want)), s.Names())
	for name, v := range want {
		require.Same(t, v, s.Server(name))
	}
	require.Nil(t, s.Server("another name"))
}

func TestAliasFindsEveryTool(t *testing.T) {
	s := bigRegistry(20, 50)
	for range 2 { // looked up, and remembered
		for _, tool := range s.Tools() {
			found, ok := s.Alias(tool.Alias)
			require.True(t, ok, tool.Alias)
			require.Equal(t, tool.Name, found.Name)
		}
	}
	for _, unknown := range []string{"", "mcp__", "mcp__server-1__", "mcp__server-1__no", "server-1__tool_0001", "tool_0001"} {
		_, ok := s.Alias(unknown)
		require.False(t, ok, unknown)
	}
}

// An alias that two tools share must not reach either.
func TestAmbiguousAliasResolvesToNeither(t *testing.T) {
	view := func(server string) *View {
		return &View{Name: server, Catalog: catalog.New(catalog.Catalog{Tools: []mcpvisor.Tool{
			{Server: server, OriginalName: "x.y", Alias: "mcp__x__y_0123abcd"}}})}
	}
	one, two := view("one"), view("two")
	_, ok := newSnapshot(map[string]*View{"one": one}, false).Alias("mcp__x__y_0123abcd")
	require.True(t, ok)
	_, ok = newSnapshot(map[string]*View{"one": one, "two": two}, false).Alias("mcp__x__y_0123abcd")
	require.False(t, ok)
}

// A status belongs to the caller, which may change it. It shows no session that has
// ended.
func TestStatusIsACopy(t *testing.T) {
	why := func() *supervisor.Cause {
		return &supervisor.Cause{Kind: supervisor.CauseExit, Stderr: []string{"out of memory"}}
	}
	v := bigView("s", 1)
	v.Spec, v.Cause, v.History = &mcpvisor.ServerSpec{}, why(), []mcpvisor.Incarnation{{Epoch: 1, Cause: why()}}
	v.State, v.current = supervisor.StateBackoff, &incarnation{session: &notifyingSession{of: &notifyingServer{}}}
	st := v.Status()
	require.Nil(t, st.Session)
	st.History[0].Cause.Stderr[0], st.LastCause.Stderr[0] = "mine", "mine"
	st.History[0].Epoch = 7
	st = v.Status()
	require.EqualValues(t, 1, st.History[0].Epoch)
	require.Equal(t, why(), st.History[0].Cause)
	require.Equal(t, why(), st.LastCause)
}

// The catalog of a server that is down is kept for the names of its tools, and not
// beside the current one.
func TestViewHoldsOneCatalog(t *testing.T) {
	a := &notifyingServer{handle: func(context.Context, *notifyingSession, transport.Request) (string, error) { return "", nil }}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		offered := view(rt).Catalog
		require.NotNil(t, offered)
		a.session(1).Abort(errScripted)
		synctest.Wait()
		require.Nil(t, view(rt).Catalog)
		require.Same(t, offered, view(rt).last)
		time.Sleep(time.Hour)
		require.NotNil(t, view(rt).Catalog)
		require.Nil(t, view(rt).last)
	})
}

// beforeReport crashes the current session of fs while a call is in flight. It runs f
// after that call has returned ErrCrashed, and before a report reaches the manager. So f
// sees the snapshot from before the crash.
func beforeReport(t *testing.T, h *harness, f func()) {
	t.Helper()
	session := h.rt.Snapshot().Server("fs").current.session.(*scriptedSession)
	failed := make(chan error, 1)
	go func() {
		_, err := h.call(context.Background(), "fs", 0)
		failed <- err
	}()
	h.state("fs") // the call is in flight
	h.rt.inbox.mu.Lock()
	defer h.rt.inbox.mu.Unlock()
	session.Abort(errScripted)
	require.ErrorIs(t, <-failed, mcpvisor.ErrCrashed)
	f()
}

// The last tools of a server that is down are known until its registration is being
// removed. They leave at once, and not with the next report.
func TestListedOrLast(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}, releaseAfter: time.Minute})
		h.register(mcpvisor.ServerSpec{Name: "fs", Policy: supervisor.Retry(3, time.Second)})
		last := func() (tools int, down bool) {
			c, down := h.rt.Snapshot().Server("fs").ListedOrLast()
			if c != nil {
				tools = len(c.Tools)
			}
			return tools, down
		}
		tools, down := last()
		require.Equal(t, 1, tools)
		require.False(t, down)

		h.rt.Snapshot().Server("fs").current.session.Abort(errScripted)
		require.Equal(t, supervisor.StateClosing, h.state("fs"))
		tools, down = last()
		require.Equal(t, 1, tools)
		require.True(t, down)

		r := &registration{gen: h.rt.Snapshot().Server("fs").Gen}
		m := &manager{rt: h.rt, state: &managerState{registrations: map[string]*registration{"fs": r}}}
		late := *h.rt.Snapshot().Server("fs") // a report that was made before the removal began
		m.stop(nil, "fs", r, time.Time{})
		for _, v := range []*View{m.view("fs"), m.viewOf(r, &late)} {
			c, down := v.ListedOrLast()
			require.Nil(t, c)
			require.False(t, down)
			require.NotNil(t, v.knownCatalog(), "calls still know its names")
		}
	})
}

func TestListing(t *testing.T) {
	hangs := script{tools: []string{"ls"}, callHangs: true, releaseAfter: time.Second}

	runWithHarness(t, "hides_a_crashed_server_before_its_report", func(t *testing.T, h *harness) {
		h.script("fs", hangs)
		h.script("other", script{tools: []string{"cat"}})
		h.register(mcpvisor.ServerSpec{Name: "fs", Policy: supervisor.Retry(3, time.Second)})
		h.register(mcpvisor.ServerSpec{Name: "other"})
		alias := h.rt.Snapshot().Tools()[0].Alias
		beforeReport(t, h, func() {
			s := h.rt.Snapshot()
			require.Len(t, s.Tools(), 1)
			require.Equal(t, "other/cat", s.Tools()[0].Name)
			_, listed := s.Alias(alias)
			require.False(t, listed)
			require.Nil(t, s.Server("fs").Listed())
			st := s.Server("fs").Status()
			require.Equal(t, supervisor.StateClosing, st.State)
			require.Zero(t, st.Catalog.Tools)
			require.Equal(t, errScripted, st.LastCause)
			require.Nil(t, st.Session)
			server, name, ok := s.SplitAlias(alias)
			require.True(t, ok, "the tool keeps its name")
			require.Equal(t, "fs/ls", server+"/"+name)
		})
		time.Sleep(3 * time.Second)
		require.Equal(t, supervisor.StateReady, h.state("fs"))
		require.Len(t, h.rt.Snapshot().Tools(), 2)
	})

	runWithHarness(t, "keeps_the_tools_that_a_standby_takes_over", func(t *testing.T, h *harness) {
		h.script("fs", hangs)
		h.register(withStandby(supervisor.Retry(3, time.Second)))
		h.settle()
		beforeReport(t, h, func() {
			require.Len(t, h.rt.Snapshot().Tools(), 1)
			require.Equal(t, supervisor.StateReady, h.rt.Snapshot().Server("fs").Status().State)
		})
	})

	runWithHarness(t, "hides_the_tools_when_the_standby_is_dead_too", func(t *testing.T, h *harness) {
		h.script("fs", hangs)
		h.register(withStandby(supervisor.Retry(3, time.Second)))
		h.settle()
		beforeReport(t, h, func() {
			require.NotNil(t, h.rt.Snapshot().Server("fs").Status().Standby)
			h.session("fs").Abort(errScripted)
			require.Empty(t, h.rt.Snapshot().Tools())
			require.Nil(t, h.rt.Snapshot().Server("fs").Status().Standby)
		})
	})

	runWithHarness(t, "hides_the_tools_when_the_budget_allows_no_takeover", func(t *testing.T, h *harness) {
		h.script("fs", hangs)
		h.register(withStandby(supervisor.Retry(1, time.Second)))
		h.settle()
		h.sessions("fs")[0].Abort(errScripted) // the takeover spends the budget
		time.Sleep(3 * time.Second)            // less than StableAfter
		h.settle()
		require.NotNil(t, h.rt.Snapshot().Server("fs").standby)
		beforeReport(t, h, func() { require.Empty(t, h.rt.Snapshot().Tools()) })
	})

	runWithHarness(t, "hides_the_tools_after_a_permanent_cause_beside_a_standby", func(t *testing.T, h *harness) {
		h.script("fs", hangs)
		h.register(withStandby(supervisor.Retry(3, time.Second)))
		h.settle()
		v := h.rt.Snapshot().Server("fs")
		require.NotNil(t, v.standby)
		h.rt.inbox.mu.Lock()
		defer h.rt.inbox.mu.Unlock()
		v.current.session.Abort(&supervisor.Cause{Kind: supervisor.CauseAuth, Permanent: true})
		require.Empty(t, h.rt.Snapshot().Tools())
	})
}
