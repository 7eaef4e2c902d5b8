package facade_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestServerStatus_is_a_copy(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Policy: supervisor.Retry(1, time.Millisecond),
		Stdio: mcptest.Stdio(mcptest.Script{Tools: []mcptest.ToolDef{{Name: "crash"}}})}))
	_, err := c.CallTool(t.Context(), "s/crash", nil)
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	require.NoError(t, c.WaitReady(t.Context(), "s"))
	before, _ := c.ServerStatus("s")
	want, err := json.Marshal(before)
	require.NoError(t, err)
	before.LastCause.Message = "changed"
	before.History[0].Cause.Message = "changed"
	*before.History[0].Cause.ExitCode = 99
	after, _ := c.ServerStatus("s")
	require.GreaterOrEqual(t, after.Totals.Uptime, before.Totals.Uptime)
	after.Totals.Uptime = before.Totals.Uptime
	got, err := json.Marshal(after)
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(got))
}

// DownSince is when the outage began, whatever is tried meanwhile; nil while the server is ready.
func TestServerStatus_DownSince(t *testing.T) {
	c := newClient(t)
	events := c.Watch(t.Context(), mcpvisor.EventConnecting)
	crash := mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageStart, Do: mcptest.ActionExit, Code: 1}}}
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", StartSupervised: true, Policy: supervisor.Retry(supervisor.Unlimited, time.Millisecond),
		InMemory: mcptest.InMemory(crash)}))
	for range 4 {
		<-events
		st, _ := c.ServerStatus("s")
		require.Equal(t, st.Registered, *st.DownSince, "it was never ready")
	}
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "t", Policy: supervisor.Retry(supervisor.Unlimited, time.Hour),
		InMemory: mcptest.InMemory(mcptest.Script{Tools: []mcptest.ToolDef{{Name: "crash"}}})}))
	st, _ := c.ServerStatus("t")
	require.Nil(t, st.DownSince)
	_, err := c.CallTool(t.Context(), "t/crash", nil)
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	st, _ = c.ServerStatus("t")
	require.WithinRange(t, *st.DownSince, st.Registered, time.Now())
	require.NoError(t, c.Restart(t.Context(), "t"))
	require.NoError(t, c.WaitReady(t.Context(), "t"))
	st, _ = c.ServerStatus("t")
	require.Nil(t, st.DownSince)
}

// The slices that are returned belong to the caller.
func TestServers_returns_a_copy(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})}))
	c.Servers()[0] = "changed"
	require.Equal(t, []string{"s"}, c.Servers())
	require.Len(t, c.Status(), 1)
}

// A server keeps what it offered last while it is down, was given up, or is replaced, and until
// the one that replaces it is ready.
func TestCatalogs_keeps_what_was_offered_last(t *testing.T) {
	c := newClient(t)
	spec := func(name string, policy supervisor.Policy, script mcptest.Script) mcpvisor.ServerSpec {
		return mcpvisor.ServerSpec{Name: name, InMemory: mcptest.InMemory(script), Policy: policy}
	}
	never := spec("never", supervisor.Retry(1, time.Hour), mcptest.Script{StartDelay: time.Hour})
	never.StartSupervised = true
	slow := spec("replaced", supervisor.NoRetry(), mcptest.Script{StartDelay: time.Hour})
	slow.StartSupervised = true
	for _, s := range []mcpvisor.ServerSpec{spec("down", supervisor.Retry(1, time.Hour), mcptest.Script{}), spec("evicted", supervisor.NoRetry(), mcptest.Script{}),
		never, spec("ready", supervisor.NoRetry(), mcptest.Script{}), spec("replaced", supervisor.NoRetry(), mcptest.Script{})} {
		require.NoError(t, c.Register(t.Context(), s))
	}
	tools := len(c.Tools()) / 4
	for _, name := range []string{"down", "evicted"} {
		_, err := c.CallTool(t.Context(), name+"/crash", nil)
		require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	}
	require.NoError(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{slow}, "down", "evicted", "never", "ready"))
	unavailable := map[string]bool{}
	for catalog := range c.Catalogs() {
		unavailable[catalog.Server] = catalog.Unavailable
		require.Len(t, catalog.Tools, tools)
		require.NotEmpty(t, catalog.Resources)
		require.NotEmpty(t, catalog.Templates)
		require.NotEmpty(t, catalog.Prompts)
	}
	require.Equal(t, map[string]bool{"down": true, "evicted": true, "ready": false, "replaced": true}, unavailable)
	for range c.Catalogs() {
		break
	}
	require.NoError(t, c.Unregister(t.Context(), "down"))
	for catalog := range c.Catalogs() {
		require.NotEqual(t, "down", catalog.Server)
	}
}
