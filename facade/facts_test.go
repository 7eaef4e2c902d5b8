package facade_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/retention"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// toolStats returns the statistics of one tool.
func toolStats(c *facade.Client, server, tool string) (found mcpvisor.ToolStats) {
	for _, s := range c.ToolStats(server) {
		if s.OriginalName == tool {
			found = s
		}
	}
	return found
}

// cancelOnProgress cancels a call that the server certainly works on.
func cancelOnProgress(t *testing.T, c *facade.Client) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := c.CallTool(ctx, "s/slow_progress", map[string]any{"steps": 100_000, "ms": 1}, facade.WithProgress(func(mcpvisor.Progress) { cancel() }))
	require.ErrorIs(t, err, mcpvisor.ErrCanceled)
}

// The statistics of a tool outlive its server's processes, and have each outcome in its
// place.
func TestToolStats(t *testing.T) {
	onEveryTransport(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		ctx := t.Context()
		c := newClient(t)
		require.NoError(t, c.Register(ctx, spec))
		require.Empty(t, c.ToolStats("s"))
		for range 3 {
			call(t, c, "s/echo", map[string]any{"text": "x"})
		}
		_, err := c.CallToolRaw(ctx, "s/fail", []byte(`{"text":"no"}`))
		require.NoError(t, err)
		_, err = c.CallTool(ctx, "s/fail", map[string]any{"text": "no"})
		require.NoError(t, err)
		canceled, cancel := context.WithCancel(ctx)
		cancel()
		_, err = c.CallTool(canceled, "s/echo", nil)
		require.ErrorIs(t, err, mcpvisor.ErrCanceled)
		cancelOnProgress(t, c)
		_, err = c.CallTool(ctx, "s/no-such-tool", nil)
		require.ErrorIs(t, err, mcpvisor.ErrUnknownTool)
		require.NoError(t, c.Restart(ctx, "s"))
		require.NoError(t, c.WaitReady(ctx, "s"))
		call(t, c, "s/echo", map[string]any{"text": "x"})

		echo := toolStats(c, "s", "echo")
		require.EqualValues(t, 4, echo.Calls)
		require.EqualValues(t, 1, echo.Refused)
		require.EqualValues(t, 4, echo.Duration.Count)
		require.Positive(t, echo.Duration.Quantile(0.5))
		require.Equal(t, "s/echo", echo.Name)
		fail := toolStats(c, "s", "fail")
		require.EqualValues(t, 2, fail.Calls)
		require.EqualValues(t, 2, fail.ToolErrors)
		require.Nil(t, fail.Failed)
		slow := toolStats(c, "s", "slow_progress")
		require.Equal(t, map[mcpvisor.ErrorKind]int64{mcpvisor.KindCanceled: 1}, slow.Failed)
		require.EqualValues(t, 1, slow.Unknown)
		require.Positive(t, slow.Duration.Max)
		require.Len(t, c.ToolStats("s"), 3, "a name that the server does not list is not stored")

		status, _ := c.ServerStatus("s")
		require.Equal(t, map[mcpvisor.ErrorKind]int64{mcpvisor.KindCanceled: 1, mcpvisor.KindUnknownTool: 1}, status.Totals.Refused)
		require.Equal(t, map[mcpvisor.ErrorKind]int64{mcpvisor.KindCanceled: 1}, status.Totals.Failed)
		require.EqualValues(t, 1, status.Totals.Unknown)
		require.EqualValues(t, 2, status.Totals.Starts)
		require.EqualValues(t, 2, status.Totals.Ready)
		require.Equal(t, map[supervisor.CauseKind]int64{supervisor.CauseRestart: 1}, status.Totals.Ends)
		require.Positive(t, status.Totals.Uptime)
		require.Positive(t, status.Catalog.Tokens)
		require.Nil(t, c.ToolStats("other"))
	})
}

// Every request of a caller is recorded once, with its outcome.
func TestRecentCalls(t *testing.T) {
	onEveryTransport(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		ctx := t.Context()
		c := newClient(t)
		require.NoError(t, c.Register(ctx, spec))
		calls, missed := c.RecentCalls(0)
		require.Empty(t, calls, "lists that the client reads by itself are not recorded")
		require.Zero(t, missed)

		before := time.Now()
		call(t, c, "s/echo", map[string]any{"text": "x"})
		_, err := c.ReadResource(ctx, "s", strings.Repeat("u", 300))
		require.Error(t, err)
		_, err = c.GetPrompt(ctx, "s/greet", map[string]string{"name": "Ada"})
		require.NoError(t, err)
		_, err = c.CallTool(ctx, "nowhere/echo", nil)
		require.ErrorIs(t, err, mcpvisor.ErrUnknownServer)
		_, err = c.CallTool(ctx, "s/nothing", nil)
		require.ErrorIs(t, err, mcpvisor.ErrUnknownTool)

		calls, _ = c.RecentCalls(0)
		require.Len(t, calls, 4)
		first := calls[0]
		require.False(t, first.Began.Before(before))
		require.Positive(t, first.Took)
		require.Positive(t, first.ResultBytes)
		first.Began, first.Took, first.ResultBytes = time.Time{}, 0, 0
		require.Equal(t, mcpvisor.CallRecord{Seq: 1, Server: "s", Gen: 1, Epoch: 1, Method: "tools/call", Target: "echo"}, first)
		require.Equal(t, "resources/read", calls[1].Method)
		require.Len(t, calls[1].Target, retention.TargetBytes)
		require.Equal(t, mcpvisor.KindRPC, calls[1].Kind)
		require.EqualValues(t, 1, calls[1].Epoch)
		require.Equal(t, mcpvisor.OutcomeAnswered, calls[1].Outcome)
		require.Equal(t, "prompts/get", calls[2].Method)
		require.Empty(t, calls[2].Kind)
		require.Equal(t, mcpvisor.KindUnknownTool, calls[3].Kind)
		require.Equal(t, mcpvisor.OutcomeNotSent, calls[3].Outcome)
		require.Zero(t, calls[3].Took)
		after, _ := c.RecentCalls(calls[2].Seq)
		require.Equal(t, calls[3:], after)

		stats := c.Stats()
		require.EqualValues(t, 4, stats.Calls)
		require.EqualValues(t, 1, stats.UnknownServer)
		require.Positive(t, stats.Events)
		require.False(t, stats.Started.IsZero())
	})
}

// A call in flight and a queued one are listed with their age, until they end.
func TestCallsInFlight(t *testing.T) {
	onEveryTransport(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		spec.Limits.MaxInFlight = 1
		c := newClient(t)
		require.NoError(t, c.Register(t.Context(), spec))
		require.Empty(t, c.CallsInFlight())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var wg sync.WaitGroup
		inFlight := func(n int) (all []mcpvisor.CallInFlight) {
			require.Eventually(t, func() bool { all = c.CallsInFlight(); return len(all) == n }, 20*time.Second, time.Millisecond)
			return all
		}
		hang := func() {
			wg.Go(func() { _, _ = c.CallTool(ctx, "s/hang", nil) })
		}
		before := time.Now()
		hang()
		first := inFlight(1)[0]
		require.False(t, first.Began.Before(before))
		require.LessOrEqual(t, first.Began, time.Now())
		first.Began = time.Time{}
		require.Equal(t, mcpvisor.CallInFlight{Server: "s", Gen: 1, Epoch: 1, Method: "tools/call", Target: "hang"}, first)
		hang()
		both := inFlight(2)
		require.False(t, both[0].Queued)
		require.True(t, both[1].Queued)
		require.Equal(t, "hang", both[1].Target)
		cancel()
		wg.Wait()
		require.Empty(t, c.CallsInFlight())
	})
}

// The stderr of a server can be read while it lives and after its end, without its
// secrets.
func TestStderr(t *testing.T) {
	const token = "tok-0123456789abcdef"
	c := newClient(t)
	_, ok := c.Stderr("s")
	require.False(t, ok)
	spec := mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(mcptest.Script{}), Secrets: []string{token}}
	require.NoError(t, c.Register(t.Context(), spec))
	status, _ := c.ServerStatus("s")
	lines := func(n int64) (s mcpvisor.ServerStderr) {
		require.Eventually(t, func() bool { s, _ = c.Stderr("s"); return s.Total == n }, 20*time.Second, time.Millisecond)
		return s
	}
	call(t, c, "s/stderr", map[string]any{"text": "hello " + token})
	require.Equal(t, mcpvisor.ServerStderr{Epoch: 1, PID: status.Session.PID, Total: 1, Lines: []string{"hello ***"}}, lines(1))
	for i := range 60 {
		call(t, c, "s/stderr", map[string]any{"text": fmt.Sprint("line ", i)})
	}
	many := lines(61)
	require.Equal(t, "hello ***", many.First[0])
	require.Len(t, many.Lines, 20)
	require.Equal(t, "line 59", many.Lines[19])
	fresh, dropped := many.After(59)
	require.Equal(t, []string{"line 58", "line 59"}, fresh)
	require.Zero(t, dropped)

	_, err := c.CallTool(t.Context(), "s/crash", nil)
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	require.Eventually(t, func() bool { s, _ := c.Stderr("s"); return s.Ended }, 20*time.Second, time.Millisecond)
	last, _ := c.Stderr("s")
	require.EqualValues(t, 1, last.Epoch)
	require.Equal(t, many.Lines, last.Lines)
}

// A server in this process has a stderr, too; one over HTTP has not.
func TestStderr_other_transports(t *testing.T) {
	c := newClient(t)
	inner := mcptest.InMemory(mcptest.Script{})
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "memory", InMemory: &mcpvisor.InMemory{
		Serve: func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, stderr io.Writer) error {
			_, _ = io.WriteString(stderr, "starting\n")
			return inner.Serve(ctx, in, out, stderr)
		}}}))
	s, ok := c.Stderr("memory")
	require.True(t, ok)
	require.Equal(t, mcpvisor.ServerStderr{Epoch: 1, Total: 1, Lines: []string{"starting"}}, s)

	web := mcptest.NewHTTP(mcptest.Script{})
	t.Cleanup(web.Close)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "http", HTTP: &mcpvisor.HTTP{URL: web.URL}}))
	s, ok = c.Stderr("http")
	require.True(t, ok)
	require.Equal(t, mcpvisor.ServerStderr{Epoch: 1}, s)
}

// Events are kept, and a watch can begin with them.
func TestRecentEvents(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{}), Origin: ".mcp.json:3"}))
	events, missed := c.RecentEvents(0)
	require.Zero(t, missed)
	require.Len(t, events, 3)
	require.Equal(t, mcpvisor.EventReady, events[2].Kind)
	watch := c.WatchFrom(t.Context(), events[0].Seq)
	require.Equal(t, mcpvisor.EventConnecting, next(t, watch).Kind)
	require.Equal(t, mcpvisor.EventReady, next(t, watch).Kind)
	require.NoError(t, c.Restart(t.Context(), "s"))
	require.Equal(t, mcpvisor.EventDown, next(t, watch).Kind)
	status, _ := c.ServerStatus("s")
	require.Equal(t, ".mcp.json:3", status.Origin)
}
