package facade_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/messages"
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

func TestKilledServerIsWithdrawnAndComesBack(t *testing.T) {
	c := newClient(t)
	events := c.Watch(t.Context())
	// In its first life count does its work and never gets to answer: a call to
	// it is provably in flight.
	script := mcptest.Script{StateDir: t.TempDir(), Faults: []mcptest.Fault{
		{At: mcptest.StageAnswer, Tool: "count", Starts: []int{1}, Do: mcptest.Delay, Delay: time.Hour}}}
	require.NoError(t, c.Register(t.Context(), messages.ServerSpec{Name: "a",
		Stdio: mcptest.Stdio(script), Policy: supervisor.Retry(3, 20*time.Millisecond)}))
	require.NoError(t, c.Register(t.Context(), messages.ServerSpec{Name: "b", InMemory: mcptest.InMemory(mcptest.Script{})}))
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
	var e *messages.Error
	require.ErrorAs(t, <-failed, &e)
	require.ErrorIs(t, e, messages.ErrCrashed)
	require.Equal(t, messages.OutcomeUnknown, e.Outcome)
	require.Equal(t, uint64(1), e.Epoch)

	res, err := c.CallTool(t.Context(), "b/echo", map[string]any{"text": "neighbour"})
	require.NoError(t, err)
	require.False(t, res.IsError)

	_, err = c.CallTool(t.Context(), "a/echo", map[string]any{"text": "back"}, facade.WithWaitReady())
	require.NoError(t, err)
	require.Equal(t, before, c.Tools())
	var kinds []messages.EventKind
	for ev := range events {
		if ev.Server == "a" {
			kinds = append(kinds, ev.Kind)
		}
		if ev.Server == "a" && ev.Kind == messages.EventReady && ev.Epoch == 2 {
			break
		}
	}
	require.Equal(t, []messages.EventKind{messages.EventRegistered, messages.EventConnecting, messages.EventReady,
		messages.EventDown, messages.EventRetry, messages.EventConnecting, messages.EventReady}, kinds)
}

func TestRegisterRefusesWhatCannotWork(t *testing.T) {
	c := newClient(t)
	good := mcptest.InMemory(mcptest.Script{})
	require.NoError(t, c.Register(t.Context(), messages.ServerSpec{Name: "taken", InMemory: good}))
	for name, tc := range map[string]struct {
		spec messages.ServerSpec
		want error
	}{
		"taken name":      {messages.ServerSpec{Name: "taken", InMemory: good}, messages.ErrExists},
		"empty name":      {messages.ServerSpec{InMemory: good}, messages.ErrInvalid},
		"illegal name":    {messages.ServerSpec{Name: "a/b", InMemory: good}, messages.ErrInvalid},
		"no transport":    {messages.ServerSpec{Name: "x"}, messages.ErrInvalid},
		"two transports":  {messages.ServerSpec{Name: "x", InMemory: good, HTTP: &messages.HTTP{URL: "http://127.0.0.1:1"}}, messages.ErrInvalid},
		"missing command": {messages.ServerSpec{Name: "x", Stdio: &messages.Stdio{Command: "no-such-command-here"}}, messages.ErrStart},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, c.Register(t.Context(), tc.spec), tc.want)
			require.Equal(t, []string{"taken"}, c.Servers())
		})
	}
}

func TestCallsRefuseWhatCannotWork(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), messages.ServerSpec{Name: "m", InMemory: mcptest.InMemory(mcptest.Script{})}))
	for name, tc := range map[string]struct {
		tool string
		args any
		want error
	}{
		"unknown server":   {"n/echo", nil, messages.ErrUnknownServer},
		"unknown tool":     {"m/ecoh", nil, messages.ErrUnknownTool},
		"no object":        {"m/echo", []int{1}, messages.ErrInvalid},
		"unmarshalable":    {"m/echo", make(chan int), messages.ErrInvalid},
		"name without '/'": {"echo", nil, messages.ErrUnknownTool},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.CallTool(t.Context(), tc.tool, tc.args)
			var e *messages.Error
			require.ErrorAs(t, err, &e)
			require.ErrorIs(t, err, tc.want)
			require.Equal(t, messages.OutcomeNotSent, e.Outcome)
			if tc.want == messages.ErrUnknownTool {
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
