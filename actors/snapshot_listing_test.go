package actors

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

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

	t.Run("hides_a_crashed_server_before_its_report", func(t *testing.T) {
		withHarness(t, func(t *testing.T, h *harness) {
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
	})

	t.Run("keeps_the_tools_that_a_standby_takes_over", func(t *testing.T) {
		withHarness(t, func(t *testing.T, h *harness) {
			h.script("fs", hangs)
			h.register(withStandby(supervisor.Retry(3, time.Second)))
			h.settle()
			beforeReport(t, h, func() {
				require.Len(t, h.rt.Snapshot().Tools(), 1)
				require.Equal(t, supervisor.StateReady, h.rt.Snapshot().Server("fs").Status().State)
			})
		})
	})

	t.Run("hides_the_tools_when_the_standby_is_dead_too", func(t *testing.T) {
		withHarness(t, func(t *testing.T, h *harness) {
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
	})

	t.Run("hides_the_tools_when_the_budget_allows_no_takeover", func(t *testing.T) {
		withHarness(t, func(t *testing.T, h *harness) {
			h.script("fs", hangs)
			h.register(withStandby(supervisor.Retry(1, time.Second)))
			h.settle()
			h.sessions("fs")[0].Abort(errScripted) // the takeover spends the budget
			time.Sleep(3 * time.Second)            // less than StableAfter
			h.settle()
			require.NotNil(t, h.rt.Snapshot().Server("fs").standby)
			beforeReport(t, h, func() { require.Empty(t, h.rt.Snapshot().Tools()) })
		})
	})

	t.Run("hides_the_tools_after_a_permanent_cause_beside_a_standby", func(t *testing.T) {
		withHarness(t, func(t *testing.T, h *harness) {
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
	})
}
