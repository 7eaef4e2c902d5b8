package facade_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// lines collects what a logger writes.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

// records are the lines as JSON objects, by the event that they report.
func (l *lines) records(t *testing.T) map[string]map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]map[string]any{}
	for line := range bytes.Lines(l.all.Bytes()) {
		var record map[string]any
		require.NoError(t, json.Unmarshal(line, &record))
		if event, ok := record["event"].(string); ok {
			all[event] = record
		}
	}
	return all
}

// Records of a crash and of its retry have their facts as fields, with zerolog and slog
// alike.
func TestLog_fields(t *testing.T) {
	for _, kind := range []string{"zerolog", "slog"} {
		t.Run(kind, func(t *testing.T) {
			var out lines
			option := facade.WithLogger(zerolog.New(&out))
			if kind == "slog" {
				option = facade.WithSlog(slog.New(slog.NewJSONHandler(&out, nil)))
			}
			c, err := facade.New(option)
			require.NoError(t, err)
			require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(mcptest.Script{}),
				Policy: supervisor.Retry(5, 5*time.Millisecond)}))
			first, _ := c.ServerStatus("s")
			_, err = c.CallTool(t.Context(), "s/crash", map[string]any{"code": 3})
			require.ErrorIs(t, err, mcpvisor.ErrCrashed)
			_, err = c.CallTool(t.Context(), "s/echo", map[string]any{"text": "x"}, facade.WithWaitReady())
			require.NoError(t, err)
			second, _ := c.ServerStatus("s")
			require.NoError(t, c.Close(t.Context()))

			all := out.records(t)
			down, retry, ready := all["down"], all["retry"], all["ready"]
			require.NotNil(t, retry)
			require.NotEqual(t, first.Session.PID, second.Session.PID)
			require.EqualValues(t, second.Session.PID, ready["pid"])
			require.EqualValues(t, second.Epoch, ready["epoch"])
			require.Contains(t, ready, "downtime")
			require.EqualValues(t, 1, retry["attempt"])
			require.EqualValues(t, 5, retry["max_attempts"])
			require.InDelta(t, 5, retry["delay"], 5, "milliseconds, with jitter")
			require.Equal(t, "exit", retry["cause"])
			require.EqualValues(t, 3, retry["exit_code"])
			require.Equal(t, "requested", down["cause"], "the last one is that of Close")
		})
	}
}
