package facade_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

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
			c := newClient(t)
			require.NoError(t, c.Register(t.Context(), spec))
			for session := range uint64(2) {
				call(t, c, "s/echo", map[string]any{"text": "x"})
				require.Eventually(t, func() bool {
					status, _ := c.ServerStatus("s")
					return status.Totals.Discarded.Unmatched == session+1
				}, 20*time.Second, time.Millisecond)
				require.NoError(t, c.Restart(t.Context(), "s"))
				require.NoError(t, c.WaitReady(t.Context(), "s"))
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
