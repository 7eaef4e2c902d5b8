package facade_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// The log messages of a call go only to its caller, on every transport.
func TestWithLogMessages_on_every_transport(t *testing.T) {
	onEveryTransportAndSSE(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c := newClient(t)
		require.NoError(t, c.Register(t.Context(), spec))
		if !strings.Contains(t.Name(), "2026") {
			require.NoError(t, c.SetLoggingLevel(t.Context(), "s", "info"))
		}
		events := watch(t, c, mcpvisor.EventLog)
		for i := range 3 {
			var got []mcpvisor.LogMessage
			text := fmt.Sprintf("message %d", i)
			_, err := c.CallToolRaw(t.Context(), "s/log", json.RawMessage(`{"level":"warning","text":"`+text+`"}`),
				facade.WithLogMessages("info", func(m mcpvisor.LogMessage) { got = append(got, m) }))
			require.NoError(t, err)
			require.Len(t, got, 1)
			require.Equal(t, "warning", got[0].Level)
			require.Equal(t, text, got[0].Text)
		}
		if strings.Contains(t.Name(), "2026") {
			_, err := c.CallToolRaw(t.Context(), "s/log", json.RawMessage(`{"level":"info"}`), facade.WithLogMessages("error", func(mcpvisor.LogMessage) {
				t.Error("below the level of the call")
			}))
			require.NoError(t, err)
			require.Empty(t, events)
			return
		}
		call(t, c, "s/log", map[string]any{"text": "to watchers"})
		require.Equal(t, "to watchers", next(t, events).Log.Text)
	})
}

// Many calls at once: over HTTP each caller gets its own messages; on a pipe no caller gets those of
// another call.
func TestWithLogMessages_many_calls_at_once(t *testing.T) {
	onEveryTransport(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c := newClient(t)
		require.NoError(t, c.Register(t.Context(), spec))
		require.NoError(t, c.SetLoggingLevel(t.Context(), "s", "debug"))
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				own := fmt.Sprintf("of caller %d", i)
				for range 10 { // below the rate limit
					got := 0
					_, err := c.CallToolRaw(t.Context(), "s/log", json.RawMessage(`{"text":"`+own+`"}`), facade.WithLogMessages("debug", func(m mcpvisor.LogMessage) {
						if got++; m.Text != own {
							t.Errorf("the caller of %q got %q", own, m.Text)
						}
					}))
					if err != nil || spec.HTTP != nil && got != 1 {
						t.Errorf("%d messages, %v", got, err)
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestWithLogMessages_invalid(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})}))
	_, err := c.CallToolRaw(t.Context(), "s/echo", nil, facade.WithLogMessages("loud", func(mcpvisor.LogMessage) {}))
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
}
