package facade_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func newClient(t *testing.T, opts ...facade.Option) *facade.Client {
	t.Helper()
	c, err := facade.New(opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		require.NoError(t, c.Close(ctx))
		require.NoError(t, c.Close(ctx))
	})
	return c
}

func TestClient_killed_server_is_withdrawn_and_restarted(t *testing.T) {
	c := newClient(t)
	events := c.Watch(t.Context())
	// In the first incarnation the tool count does its work and never answers, so that a
	// call of it is certainly in flight.
	script := mcptest.Script{StateDir: t.TempDir(), Faults: []mcptest.Fault{
		{At: mcptest.StageAnswer, Tool: "count", Starts: []int{1}, Do: mcptest.ActionDelay, Delay: time.Hour}}}
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "a",
		Stdio: mcptest.Stdio(script), Policy: supervisor.Retry(3, 20*time.Millisecond)}))
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "b", InMemory: mcptest.InMemory(mcptest.Script{})}))
	before := c.Tools()
	st, ok := c.ServerStatus("a")
	require.True(t, ok)

	failed := make(chan error, 1)
	go func() {
		_, err := c.CallTool(context.Background(), "a/count", map[string]any{"key": "k"})
		failed <- err
	}()
	require.Eventually(t, func() bool { return mcptest.Executions(script.StateDir)["k"] == 1 }, 10*time.Second, time.Millisecond)

	p, err := os.FindProcess(st.Session.PID)
	require.NoError(t, err)
	require.NoError(t, p.Kill())
	var e *mcpvisor.Error
	require.ErrorAs(t, <-failed, &e)
	require.ErrorIs(t, e, mcpvisor.ErrCrashed)
	require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
	require.Equal(t, uint64(1), e.Epoch)

	res, err := c.CallTool(t.Context(), "b/echo", map[string]any{"text": "other server"})
	require.NoError(t, err)
	require.False(t, res.IsError)

	_, err = c.CallTool(t.Context(), "a/echo", map[string]any{"text": "back"}, facade.WithWaitReady())
	require.NoError(t, err)
	require.Equal(t, before, c.Tools())
	var kinds []mcpvisor.EventKind
	for ev := range events {
		if ev.Server == "a" {
			kinds = append(kinds, ev.Kind)
		}
		if ev.Server == "a" && ev.Kind == mcpvisor.EventReady && ev.Epoch == 2 {
			break
		}
	}
	require.Equal(t, []mcpvisor.EventKind{mcpvisor.EventRegistered, mcpvisor.EventConnecting, mcpvisor.EventReady,
		mcpvisor.EventDown, mcpvisor.EventRetry, mcpvisor.EventConnecting, mcpvisor.EventReady}, kinds)
}

func TestRegister_errors(t *testing.T) {
	c := newClient(t)
	good := mcptest.InMemory(mcptest.Script{})
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "taken", InMemory: good}))
	for name, tc := range map[string]struct {
		spec mcpvisor.ServerSpec
		want error
	}{
		"taken name":      {mcpvisor.ServerSpec{Name: "taken", InMemory: good}, mcpvisor.ErrExists},
		"empty name":      {mcpvisor.ServerSpec{InMemory: good}, mcpvisor.ErrInvalid},
		"illegal name":    {mcpvisor.ServerSpec{Name: "a/b", InMemory: good}, mcpvisor.ErrInvalid},
		"no transport":    {mcpvisor.ServerSpec{Name: "x"}, mcpvisor.ErrInvalid},
		"two transports":  {mcpvisor.ServerSpec{Name: "x", InMemory: good, HTTP: &mcpvisor.HTTP{URL: "http://127.0.0.1:1"}}, mcpvisor.ErrInvalid},
		"missing command": {mcpvisor.ServerSpec{Name: "x", Stdio: &mcpvisor.Stdio{Command: "no-such-command-here"}}, mcpvisor.ErrStart},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, c.Register(t.Context(), tc.spec), tc.want)
			require.Equal(t, []string{"taken"}, c.Servers())
		})
	}
}

func TestCallTool_invalid_names_and_arguments(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "m", InMemory: mcptest.InMemory(mcptest.Script{})}))
	for name, tc := range map[string]struct {
		tool string
		args any
		want error
	}{
		"unknown server":   {"n/echo", nil, mcpvisor.ErrUnknownServer},
		"unknown tool":     {"m/ecoh", nil, mcpvisor.ErrUnknownTool},
		"no object":        {"m/echo", []int{1}, mcpvisor.ErrInvalid},
		"unmarshalable":    {"m/echo", make(chan int), mcpvisor.ErrInvalid},
		"name without '/'": {"echo", nil, mcpvisor.ErrUnknownTool},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.CallTool(t.Context(), tc.tool, tc.args)
			var e *mcpvisor.Error
			require.ErrorAs(t, err, &e)
			require.ErrorIs(t, err, tc.want)
			require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
			if tc.want == mcpvisor.ErrUnknownTool {
				require.Contains(t, err.Error(), "m/echo")
			}
		})
	}
	for _, tool := range c.Tools() {
		if tool.OriginalName == "echo" {
			res, err := c.CallTool(t.Context(), tool.Alias, map[string]string{"text": "by alias"})
			require.NoError(t, err)
			require.False(t, res.IsError)
		}
	}
}

// Changes of the original after Register have no effect.
func TestRegister_copies_the_spec(t *testing.T) {
	c := newClient(t)
	var mu sync.Mutex
	seen := map[string]bool{}
	srv := rawHTTP(t, func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.Header.Get("Authorization")] = true
	}, func(http.ResponseWriter, *http.Request) {})
	headers := map[string]string{"Authorization": "Bearer one"}
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "web", HTTP: &mcpvisor.HTTP{URL: srv.URL, Headers: headers}}))
	headers["Authorization"] = "Bearer two"
	require.NoError(t, c.Restart(t.Context(), "web"))
	require.NoError(t, c.WaitReady(t.Context(), "web"))
	mu.Lock()
	require.Equal(t, map[string]bool{"Bearer one": true}, seen)
	mu.Unlock()

	program := mcptest.Stdio(mcptest.Script{})
	for i := range 500 {
		program.Env[fmt.Sprint("PAD", i)] = "x"
	}
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", StartSupervised: true, Stdio: program}))
	for i := range 500 { // while it starts, for the race detector
		program.Env[fmt.Sprint("PAD", i)] = "y"
	}
	require.NoError(t, c.WaitReady(t.Context(), "s"))
}
