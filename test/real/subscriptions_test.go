//go:build real

package real

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// awaitEvent waits for an event and returns the log lines that came before it.
func awaitEvent(t *testing.T, events <-chan mcpvisor.Event, what string, matches func(mcpvisor.Event) bool) (log []mcpvisor.LogMessage) {
	t.Helper()
	limit := time.After(30 * time.Second)
	for {
		select {
		case ev, ok := <-events:
			require.True(t, ok)
			require.NotEqual(t, mcpvisor.EventMissed, ev.Kind)
			if matches(ev) {
				return log
			}
			if ev.Kind == mcpvisor.EventLog {
				log = append(log, *ev.Log)
			}
		case <-limit:
			require.FailNow(t, "no event: "+what)
		}
	}
}

func updated(uri string) func(mcpvisor.Event) bool {
	return func(ev mcpvisor.Event) bool { return ev.Kind == mcpvisor.EventResourceUpdated && ev.URI == uri }
}

func logged(text string) func(mcpvisor.Event) bool {
	return func(ev mcpvisor.Event) bool {
		return ev.Kind == mcpvisor.EventLog && strings.Contains(ev.Log.Text, text)
	}
}

// Subscriptions and the log level are applied again after a restart. server-everything
// logs each subscription at the level info, and sends updates on demand, all on one
// stream. So an update that arrives shows that no log line was sent before it.
func TestSubscriptions_and_log_level_after_restart(t *testing.T) {
	const name, updates = "everything", "everything/toggle-subscriber-updates"
	const first, second, third = "demo://resource/dynamic/text/1", "demo://resource/dynamic/text/2", "demo://resource/dynamic/text/3"
	script := []string{scope + "server-everything/dist/index.js", "streamableHttp"}
	port := freePort(t)
	kill := serve(t, port, script...)
	c := newClient(t)
	events := c.Watch(t.Context())
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: name,
		HTTP:   &mcpvisor.HTTP{URL: fmt.Sprintf("http://127.0.0.1:%d/mcp", port)},
		Policy: supervisor.Retry(supervisor.Unlimited, 50*time.Millisecond), Probe: mcpvisor.Probe{Interval: 200 * time.Millisecond}}))

	require.NoError(t, c.Subscribe(t.Context(), name, first))
	awaitEvent(t, events, "the log line about the first subscription", logged(first))
	require.NoError(t, c.SetLoggingLevel(t.Context(), name, "warning"))
	require.NoError(t, c.Subscribe(t.Context(), name, second))
	call(t, c, updates, nil)
	require.Empty(t, awaitEvent(t, events, "an update", updated(second)))

	working := startCall(t, c, "everything/trigger-long-running-operation", map[string]any{"duration": 300, "steps": 3000})
	kill()
	requireCrashed(t, working)
	awaitKind(t, events, mcpvisor.EventDown)
	serve(t, port, script...)
	awaitKind(t, events, mcpvisor.EventReady)

	// The test does not subscribe or set the level again.
	call(t, c, updates, nil)
	require.Empty(t, awaitEvent(t, events, "an update of the first after the restart", updated(first)))
	require.Empty(t, awaitEvent(t, events, "an update of the second after the restart", updated(second)))
	require.NoError(t, c.Subscribe(t.Context(), name, third))
	require.NoError(t, c.Unsubscribe(t.Context(), name, second))
	call(t, c, updates, nil) // off
	call(t, c, updates, nil) // on, and at once
	require.Empty(t, awaitEvent(t, events, "an update of the third", updated(third)))

	require.NoError(t, c.SetLoggingLevel(t.Context(), name, "debug"))
	call(t, c, "everything/toggle-simulated-logging", nil)
	awaitEvent(t, events, "a log line", logged("message - SessionId"))
}
