package facade_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// Subscriptions and the logging level are set again after a restart and after a crash.
func TestSubscribe_and_logging_level_survive_restarts(t *testing.T) {
	onEveryTransport(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c := newClient(t)
		events := watch(t, c, mcpvisor.EventResourceUpdated, mcpvisor.EventLog)
		// logged returns the next log message, and how many updates came before it.
		logged := func() (line mcpvisor.LogMessage, updates int) {
			for e := next(t, events); ; e = next(t, events) {
				if e.Kind == mcpvisor.EventLog {
					return *e.Log, updates
				}
				require.Equal(t, "mcptest://text", e.URI)
				updates++
			}
		}
		require.NoError(t, c.Register(t.Context(), spec))
		require.NoError(t, c.Subscribe(t.Context(), "s", "mcptest://text"))
		require.NoError(t, c.SetLoggingLevel(t.Context(), "s", "warning"))
		requireUpdateAndLog := func() {
			// A stream that was cut is opened again after a pause; until then no update arrives.
			until(t, func() bool {
				call(t, c, "s/touch", map[string]any{"uri": "mcptest://other"}) // not subscribed
				call(t, c, "s/touch", map[string]any{"uri": "mcptest://text"})
				select {
				case e := <-events:
					require.Equal(t, mcpvisor.EventResourceUpdated, e.Kind)
					require.Equal(t, "mcptest://text", e.URI)
					return true
				case <-time.After(50 * time.Millisecond):
					return false
				}
			})
			call(t, c, "s/log", map[string]any{"level": "info", "text": "not this"})
			call(t, c, "s/log", map[string]any{"level": "error", "text": "but this"})
			line, _ := logged()
			require.Equal(t, mcpvisor.LogMessage{Level: "error", Logger: "mcptest", Text: "but this"}, line)
		}
		requireUpdateAndLog()
		require.NoError(t, c.Restart(t.Context(), "s"))
		require.NoError(t, c.WaitReady(t.Context(), "s"))
		requireUpdateAndLog()
		crash(t, c)
		requireUpdateAndLog()
		require.NoError(t, c.Unsubscribe(t.Context(), "s", "mcptest://text"))
		call(t, c, "s/log", map[string]any{"level": "error", "text": "before"})
		line, _ := logged()
		require.Equal(t, "before", line.Text)
		call(t, c, "s/touch", map[string]any{"uri": "mcptest://text"})
		call(t, c, "s/log", map[string]any{"level": "error", "text": "after"})
		line, updates := logged()
		require.Equal(t, "after", line.Text)
		if spec.HTTP == nil { // on a pipe the order is kept
			require.Zero(t, updates)
		}
	})
}

func TestSubscribe_errors(t *testing.T) {
	c := newClient(t)
	refuses := &mcpvisor.InMemory{Serve: rawServer(func(string, string) string { return "" }).Serve}
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraModern, InMemory: mcptest.InMemory(mcptest.Script{
		Versions: []string{"2026-07-28"}, NoResources: true, NoTools: true,
		Faults: []mcptest.Fault{{At: mcptest.StageCall, Method: "subscriptions/listen", Do: mcptest.ActionError, Text: "not here"}}})}))
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "raw", InMemory: refuses}))
	err := c.Subscribe(t.Context(), "s", "mcptest://text")
	require.ErrorContains(t, err, "not here")
	require.ErrorIs(t, c.Subscribe(t.Context(), "s", ""), mcpvisor.ErrInvalid)
	require.ErrorIs(t, c.Subscribe(t.Context(), "unknown", "x:y"), mcpvisor.ErrUnknownServer)
	require.ErrorIs(t, c.SetLoggingLevel(t.Context(), "s", "loud"), mcpvisor.ErrInvalid)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = c.Subscribe(ctx, "raw", "x:y") // the context or the answer may be first
}
