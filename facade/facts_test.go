package facade_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/internal/retention"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// toolStats returns the statistics of one tool.
func toolStats(c *facade.Client, server, tool string) (found monitor.ToolStats) {
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
		restart(t, c)
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
		require.Equal(t, map[mcpvisor.ErrorKind]int64{mcpvisor.ErrCanceled: 1}, slow.Failed)
		require.EqualValues(t, 1, slow.Unknown)
		require.Positive(t, slow.Duration.Max)
		require.Len(t, c.ToolStats("s"), 3, "a name that the server does not list is not stored")

		status, _ := c.ServerStatus("s")
		require.Equal(t, map[mcpvisor.ErrorKind]int64{mcpvisor.ErrCanceled: 1, mcpvisor.ErrUnknownTool: 1}, status.Totals.Refused)
		require.Equal(t, map[mcpvisor.ErrorKind]int64{mcpvisor.ErrCanceled: 1}, status.Totals.Failed)
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
		calls, missed := c.History().Calls(0)
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

		calls, _ = c.History().Calls(0)
		require.Len(t, calls, 4)
		first := calls[0]
		require.False(t, first.Began.Before(before))
		require.Positive(t, first.Took)
		require.Positive(t, first.ResultBytes)
		first.Began, first.Took, first.ResultBytes = time.Time{}, 0, 0
		require.Equal(t, monitor.CallRecord{Seq: 1, Server: "s", Gen: 1, Epoch: 1, Method: "tools/call", Target: "echo"}, first)
		require.Equal(t, "resources/read", calls[1].Method)
		require.Len(t, calls[1].Target, retention.TargetBytes)
		require.Equal(t, mcpvisor.ErrRPC, calls[1].Kind)
		require.EqualValues(t, 1, calls[1].Epoch)
		require.Equal(t, mcpvisor.OutcomeAnswered, calls[1].Outcome)
		require.Equal(t, "prompts/get", calls[2].Method)
		require.Empty(t, calls[2].Kind)
		require.Equal(t, mcpvisor.ErrUnknownTool, calls[3].Kind)
		require.Equal(t, mcpvisor.OutcomeNotSent, calls[3].Outcome)
		require.Zero(t, calls[3].Took)
		after, _ := c.History().Calls(calls[2].Seq)
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
		c := registered(t, spec)
		require.Empty(t, c.CallsInFlight())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var wg sync.WaitGroup
		inFlight := func(n int) (all []monitor.CallInFlight) {
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
		require.NotZero(t, first.ID)
		first.Began, first.ID = time.Time{}, 0
		require.Equal(t, monitor.CallInFlight{Server: "s", Gen: 1, Epoch: 1, Method: "tools/call", Target: "hang"}, first)
		hang()
		both := inFlight(2)
		require.False(t, both[0].Queued)
		require.True(t, both[1].Queued)
		require.Equal(t, "hang", both[1].Target)
		require.NotZero(t, both[1].ID)
		cancel()
		wg.Wait()
		require.Empty(t, c.CallsInFlight())
	})
}

// An operator ends a call in flight: its caller is told so, the call is recorded, and the session continues. What is not
// that call ends none.
func TestCancelCall(t *testing.T) {
	onEveryTransportAndSSE(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		spec.Limits.MaxInFlight = 1
		c := registered(t, spec)
		for _, opts := range [][]facade.CallOption{nil, {facade.WithProgress(func(mcpvisor.Progress) {})}, {facade.WithWaitReady()}} {
			ended, queued := make(chan error, 1), make(chan error, 1)
			go func() { _, err := c.CallTool(t.Context(), "s/hang", nil, opts...); ended <- err }()
			require.Eventually(t, func() bool { return len(c.CallsInFlight()) == 1 }, 20*time.Second, time.Millisecond)
			go func() { _, err := c.CallTool(t.Context(), "s/echo", map[string]any{"text": "x"}); queued <- err }()
			require.Eventually(t, func() bool { return len(c.CallsInFlight()) == 2 }, 20*time.Second, time.Millisecond)
			both := c.CallsInFlight()
			for _, change := range []func(*monitor.CallInFlight){
				func(c *monitor.CallInFlight) { c.Server = "other" }, func(c *monitor.CallInFlight) { c.Gen++ }, func(c *monitor.CallInFlight) { c.Epoch++ },
				func(c *monitor.CallInFlight) { c.ID++ }, func(c *monitor.CallInFlight) { c.Target = "echo" }, func(c *monitor.CallInFlight) { c.Began = c.Began.Add(1) },
				func(c *monitor.CallInFlight) { c.Queued = true }, func(c *monitor.CallInFlight) { *c = both[1]; c.ID++ },
			} {
				other := both[0]
				change(&other)
				require.ErrorIs(t, relay.Of(c).CancelCall(other), mcpvisor.ErrInvalid)
			}
			require.Len(t, c.CallsInFlight(), 2)
			require.NoError(t, relay.Of(c).CancelCall(both[1]))
			err := <-queued
			require.ErrorContains(t, err, "an operator canceled the call")
			require.ErrorIs(t, err, mcpvisor.ErrCanceled)
			requireOutcome(t, err, mcpvisor.OutcomeNotSent)
			require.ErrorIs(t, relay.Of(c).CancelCall(both[1]), mcpvisor.ErrInvalid, "it has ended")
			require.Contains(t, textOf(t, c.ErrorForModel("s/echo", err)), "an operator canceled the call of s/echo.")
			go func() { _, err := c.CallTool(t.Context(), "s/echo", map[string]any{"text": "x"}); queued <- err }()
			require.Eventually(t, func() bool { return len(c.CallsInFlight()) == 2 }, 20*time.Second, time.Millisecond)
			sent := both[0]
			sent.Began = sent.Began.UTC().Round(0) // as from JSON
			require.NoError(t, relay.Of(c).CancelCall(sent))
			err = <-ended
			require.ErrorIs(t, err, mcpvisor.ErrCanceled)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorContains(t, err, "an operator canceled the call")
			require.NotContains(t, err.Error(), "context canceled")
			var e *mcpvisor.Error
			require.ErrorAs(t, err, &e)
			require.NoError(t, <-queued)
			if spec.HTTP != nil && e.Outcome == mcpvisor.OutcomeNotSent { // it was in flight, and not written yet
				continue
			}
			require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
			require.Contains(t, textOf(t, c.ErrorForModel("s/hang", err)), "an operator canceled the call of s/hang. Whether it had an effect is not known")
			unknown := c.History().UnknownCalls()
			require.Contains(t, unknown[len(unknown)-1].Error, "an operator canceled the call")
			require.ErrorIs(t, relay.Of(c).CancelCall(sent), mcpvisor.ErrInvalid, "it has ended")
		}
		status, _ := c.ServerStatus("s")
		require.EqualValues(t, 1, status.Epoch)
	})
}

// An operator ends a call that waits for input of its caller, whichever way the server has asked for it.
func TestCancelCall_that_waits_for_input(t *testing.T) {
	onEveryTransportAndSSE(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c := registered(t, spec, everythingDeclared)
		asked, ended := make(chan struct{}), make(chan error, 1)
		handlers := facade.WithCallHandlers(&facade.CallHandlers{Elicitation: func(ctx context.Context, _ facade.ElicitationRequest) (*mcp.ElicitResult, error) {
			close(asked)
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		go func() {
			_, err := c.CallToolRaw(t.Context(), "s/consult", json.RawMessage(`{"method":"elicitation/create","params":`+wantsText+`}`), handlers)
			ended <- err
		}()
		<-asked
		calls := c.CallsInFlight()
		require.Len(t, calls, 1)
		require.NoError(t, relay.Of(c).CancelCall(calls[0]))
		err := <-ended
		require.ErrorIs(t, err, mcpvisor.ErrCanceled)
		require.ErrorContains(t, err, "an operator canceled the call")
		require.Empty(t, c.CallsInFlight())
		_, err = c.CallTool(t.Context(), "s/echo", map[string]any{"text": "x"})
		require.NoError(t, err)
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
	lines := func(n int64) (s monitor.ServerStderr) {
		require.Eventually(t, func() bool { s, _ = c.Stderr("s"); return s.Total == n }, 20*time.Second, time.Millisecond)
		return s
	}
	call(t, c, "s/stderr", map[string]any{"text": "hello " + token})
	require.Equal(t, monitor.ServerStderr{Epoch: 1, PID: status.Session.PID, Total: 1, Lines: []string{"hello ***"}}, lines(1))
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
	require.Equal(t, monitor.ServerStderr{Epoch: 1, Total: 1, Lines: []string{"starting"}}, s)

	web := mcptest.NewHTTP(mcptest.Script{})
	t.Cleanup(web.Close)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "http", HTTP: &mcpvisor.HTTP{URL: web.URL}}))
	s, ok = c.Stderr("http")
	require.True(t, ok)
	require.Equal(t, monitor.ServerStderr{Epoch: 1}, s)
}

// Each kind of cause, driven by a fault, moves its own count and no other. CausePanic is a
// defect of this module; TestPortPanicEndsOneSession in actors has it.
func TestTotals_ends_by_cause(t *testing.T) {
	process := func(faults ...mcptest.Fault) mcpvisor.ServerSpec {
		return mcpvisor.ServerSpec{Era: mcpvisor.EraLegacy, Stdio: mcptest.Stdio(mcptest.Script{Faults: faults})}
	}
	callOf := func(tool string, args map[string]any) func(*testing.T, *facade.Client) {
		return func(t *testing.T, c *facade.Client) {
			_, err := c.CallTool(t.Context(), "s/"+tool, args)
			require.Error(t, err)
		}
	}
	denied := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	t.Cleanup(denied.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	slowList := process(mcptest.Fault{At: mcptest.StageList, Do: mcptest.ActionHang})
	slowList.Timeouts.List = 50 * time.Millisecond
	silent := process(mcptest.Fault{At: mcptest.StagePing, Do: mcptest.ActionHang})
	silent.Probe = mcpvisor.Probe{Interval: 20 * time.Millisecond, Timeout: 20 * time.Millisecond, Failures: 1}
	// The registration of a server that does not end yet can still be looked at.
	end, inner := make(chan struct{}), mcptest.InMemory(mcptest.Script{})
	lasting := mcpvisor.ServerSpec{Timeouts: mcpvisor.Timeouts{Shutdown: time.Minute}, InMemory: &mcpvisor.InMemory{
		Serve: func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, stderr io.Writer) error {
			defer func() { <-end }()
			return inner.Serve(ctx, in, out, stderr)
		}}}

	for kind, row := range map[supervisor.CauseKind]struct {
		spec  mcpvisor.ServerSpec
		drive func(*testing.T, *facade.Client) // after the server is ready; nil: its start fails
	}{
		supervisor.CauseSpawn:     {mcpvisor.ServerSpec{HTTP: &mcpvisor.HTTP{URL: gone.URL}}, nil},
		supervisor.CauseConfig:    {mcpvisor.ServerSpec{Stdio: &mcpvisor.Stdio{Command: "no-such-command-anywhere"}}, nil},
		supervisor.CauseHandshake: {process(mcptest.Fault{At: mcptest.StageInitialize, Do: mcptest.ActionError, Text: "no"}), nil},
		supervisor.CauseVersion:   {process(mcptest.Fault{At: mcptest.StageInitialize, Do: mcptest.ActionRefuseVersion}), nil},
		supervisor.CauseAuth:      {mcpvisor.ServerSpec{HTTP: &mcpvisor.HTTP{URL: denied.URL}}, nil},
		supervisor.CauseExit:      {process(), callOf("crash", nil)},
		supervisor.CauseSignal:    {process(), callOf("signal", map[string]any{"name": "KILL"})},
		supervisor.CauseClosed:    {process(mcptest.Fault{At: mcptest.StageCall, Do: mcptest.ActionCloseStdout}), callOf("echo", nil)},
		supervisor.CauseProtocol:  {process(mcptest.Fault{At: mcptest.StageList, Do: mcptest.ActionError}), nil},
		supervisor.CauseTimeout:   {slowList, nil},
		supervisor.CauseProbe:     {silent, func(*testing.T, *facade.Client) {}},
		supervisor.CauseRestart: {process(), func(t *testing.T, c *facade.Client) {
			require.NoError(t, c.Restart(t.Context(), "s"))
		}},
		supervisor.CauseFenced: {process(), func(t *testing.T, c *facade.Client) {
			require.NoError(t, c.Fence(t.Context(), "s", ""))
		}},
		supervisor.CauseRequested: {lasting, func(t *testing.T, c *facade.Client) {
			stopped := make(chan error, 1)
			go func() { stopped <- c.Unregister(context.Background(), "s") }()
			t.Cleanup(func() {
				close(end)
				require.NoError(t, <-stopped)
			})
		}},
	} {
		t.Run(string(kind), func(t *testing.T) {
			c := newClient(t)
			row.spec.Name, row.spec.StartSupervised = "s", true
			require.NoError(t, c.Register(t.Context(), row.spec))
			if row.drive != nil {
				require.NoError(t, c.WaitReady(t.Context(), "s"))
				status, _ := c.ServerStatus("s")
				require.EqualValues(t, 1, status.Totals.Ready)
				require.Eventually(t, func() bool { status, _ := c.ServerStatus("s"); return status.Totals.Uptime > 0 }, 20*time.Second, time.Millisecond)
				row.drive(t, c)
			}
			var totals mcpvisor.Totals
			require.Eventually(t, func() bool {
				status, _ := c.ServerStatus("s")
				totals = status.Totals
				return len(totals.Ends) > 0
			}, 20*time.Second, time.Millisecond)
			require.Equal(t, map[supervisor.CauseKind]int64{kind: 1}, totals.Ends)
			require.GreaterOrEqual(t, totals.Starts, int64(1))
		})
	}
}

// Answers to no request in flight, as late ones are and second ones, are counted in each
// session, and the counts of the last session stay.
func TestTotals_unmatched_answers_outlive_a_restart(t *testing.T) {
	twice := mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageCall, Tool: "echo", Do: mcptest.ActionMalformed, Text: "duplicate"}}}
	for name, spec := range map[string]mcpvisor.ServerSpec{
		"memory":  {Name: "s", InMemory: mcptest.InMemory(twice)},
		"process": {Name: "s", Stdio: mcptest.Stdio(twice)},
	} {
		t.Run(name, func(t *testing.T) {
			c := registered(t, spec)
			for session := range uint64(2) {
				call(t, c, "s/echo", map[string]any{"text": "x"})
				require.Eventually(t, func() bool {
					status, _ := c.ServerStatus("s")
					return status.Totals.Discarded.Unmatched == session+1
				}, 20*time.Second, time.Millisecond)
				restart(t, c)
				status, _ := c.ServerStatus("s")
				require.Equal(t, session+1, status.Totals.Discarded.Unmatched, "after the restart")
				require.Zero(t, status.Session.Discarded.Unmatched)
			}
		})
	}
}

// The takeover by a standby is a further readiness, and its incarnation is counted.
func TestTotals_standby(t *testing.T) {
	c := newClient(t)
	events := c.Watch(t.Context(), mcpvisor.EventStandby)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Standby: true, InMemory: mcptest.InMemory(mcptest.Script{}),
		Policy: supervisor.Retry(3, time.Millisecond)}))
	next(t, events)
	_, err := c.CallTool(t.Context(), "s/crash", nil)
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	next(t, events) // the next standby is ready
	status, _ := c.ServerStatus("s")
	require.EqualValues(t, 3, status.Totals.Starts)
	require.EqualValues(t, 2, status.Totals.Ready)
	require.Equal(t, map[supervisor.CauseKind]int64{supervisor.CauseExit: 1}, status.Totals.Ends)
}

// A call of unknown outcome stays listed, however many calls succeed afterwards.
func TestUnknownCalls(t *testing.T) {
	c := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{}),
		Policy: supervisor.Retry(1, time.Millisecond)})
	_, err := c.CallTool(t.Context(), "s/crash", nil)
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	require.NoError(t, c.WaitReady(t.Context(), "s"))
	_, err = c.CallTool(t.Context(), "s/none", nil)
	require.ErrorIs(t, err, mcpvisor.ErrUnknownTool)
	for range retention.Calls + 1 {
		call(t, c, "s/echo", map[string]any{"text": "x"})
	}
	unknown := c.History().UnknownCalls()
	require.Len(t, unknown, 1)
	require.EqualValues(t, 1, unknown[0].Seq)
	require.Equal(t, "crash", unknown[0].Target)
	require.Equal(t, mcpvisor.OutcomeUnknown, unknown[0].Outcome)
	recent, _ := c.History().Calls(0)
	require.Greater(t, recent[0].Seq, unknown[0].Seq)
}

// A call that begins after the death of the session was never in flight.
func TestEventDown_counts_only_calls_in_flight(t *testing.T) {
	for range 20 {
		c := newClient(t)
		events := c.Watch(t.Context())
		require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})}))
		_, err := c.CallTool(t.Context(), "s/crash", nil)
		require.ErrorIs(t, err, mcpvisor.ErrCrashed)
		for range 3 {
			_, err = c.CallTool(t.Context(), "s/echo", nil)
			require.Error(t, err)
		}
		for e := range events {
			if e.Kind == mcpvisor.EventDown {
				require.Equal(t, 1, e.FailedCalls)
				break
			}
		}
		require.NoError(t, c.Close(context.Background()))
	}
}
