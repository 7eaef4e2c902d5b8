package facade_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// The logger gets every crash, retry and eviction. All lines are written when Close
// returns.
func TestLogger_gets_supervision_events(t *testing.T) {
	var log testutil.LockedBuffer
	c := newClient(t, facade.WithLogger(zerolog.New(&log)))
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Policy: supervisor.Retry(1, time.Millisecond),
		InMemory: mcptest.InMemory(mcptest.Script{})}))
	events := c.Watch(t.Context())
	require.NoError(t, c.SetLoggingLevel(t.Context(), "s", "info"))
	_, err := c.CallTool(t.Context(), "s/log", map[string]any{"level": "error", "text": "out of paper"})
	require.NoError(t, err)
	for range 2 {
		_, err := c.CallTool(t.Context(), "s/crash", nil, facade.WithWaitReady())
		require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	}
	for e := range events {
		if e.Kind == mcpvisor.EventEvicted {
			break
		}
	}
	require.NoError(t, c.Close(t.Context()))

	type line struct{ Level, Server, Event, Message string }
	var got []line
	for text := range strings.Lines(log.String()) {
		var l line
		require.NoError(t, json.Unmarshal([]byte(text), &l), text)
		require.Equal(t, "s", l.Server)
		if l.Event == "" {
			require.Equal(t, line{"error", "s", "", "out of paper"}, l)
			continue
		}
		require.True(t, strings.HasPrefix(l.Message, "s "), l.Message)
		l.Message = ""
		got = append(got, l)
	}
	require.Contains(t, log.String(), "out of paper")
	require.Equal(t, []line{
		{"info", "s", "registered", ""}, {"debug", "s", "connecting", ""}, {"info", "s", "ready", ""},
		{"warn", "s", "down", ""}, {"warn", "s", "retry", ""}, {"debug", "s", "connecting", ""}, {"info", "s", "ready", ""},
		{"warn", "s", "down", ""}, {"error", "s", "evicted", ""}, {"info", "s", "unregistered", ""},
	}, got)
}

// stuckWriter blocks until it is closed.
type stuckWriter chan struct{}

func (s stuckWriter) Write(p []byte) (int, error) { <-s; return len(p), nil }

// Neither servers nor Close wait for a logger that blocks.
func TestLogger_that_blocks(t *testing.T) {
	stuck := make(stuckWriter)
	t.Cleanup(func() { close(stuck) }) // after the client is closed
	c := newClient(t, facade.WithLogger(zerolog.New(stuck)))
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Policy: supervisor.Retry(3, time.Millisecond),
		InMemory: mcptest.InMemory(mcptest.Script{})}))
	require.NoError(t, c.SetLoggingLevel(t.Context(), "s", "info"))
	for range 50 {
		_, err := c.CallTool(t.Context(), "s/log", map[string]any{"level": "error", "text": "out of paper"})
		require.NoError(t, err)
	}
	_, err := c.CallTool(t.Context(), "s/crash", nil)
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	_, err = c.CallTool(t.Context(), "s/echo", nil, facade.WithWaitReady())
	require.NoError(t, err)
}
