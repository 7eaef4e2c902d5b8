package facade_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/raw"
)

// progressing starts a legacy server over HTTP whose tool reports progress once and
// answers after 300 ms. While gone is set, the next request gets 404.
func progressing(t *testing.T, gone *atomic.Bool) *mcpvisor.HTTP {
	t.Helper()
	quit := make(chan struct{})
	server := overHTTP(t, &raw.Server{Answer: func(m *raw.Message) string {
		switch {
		case gone != nil && gone.Swap(false):
			m.W.WriteHeader(http.StatusNotFound)
			return raw.None
		case m.Method == "initialize":
			m.W.Header().Set("Mcp-Session-Id", fmt.Sprint("s", time.Now().UnixNano()))
		case m.Method == "tools/call":
			var p struct {
				Meta struct {
					ProgressToken json.RawMessage `json:"progressToken"`
				} `json:"_meta"`
			}
			_ = json.Unmarshal(m.Params, &p)
			m.Send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, p.Meta.ProgressToken)
			select {
			case <-time.After(300 * time.Millisecond):
			case <-quit:
			}
		}
		return rawMembers(m)
	}})
	t.Cleanup(func() { close(quit) })
	return server
}

// A callback that panics, and whose panic the host recovers as net/http does, releases its
// slot of Limits.MaxInFlight.
func TestWithProgress_panic_releases_the_slot(t *testing.T) {
	srv := progressing(t, nil)
	c := registered(t, mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraLegacy, HTTP: srv,
		Limits: mcpvisor.Limits{MaxInFlight: 1, MaxQueued: -1}})
	func() {
		defer func() { require.NotNil(t, recover()) }()
		_, _ = c.CallTool(t.Context(), "s/x", nil, facade.WithProgress(func(mcpvisor.Progress) { panic("in the host's function") }))
	}()
	_, err := c.CallTool(t.Context(), "s/x", nil)
	require.NoError(t, err, "nothing is in flight")
	var ended sync.WaitGroup
	ended.Go(func() {
		_, _ = c.CallTool(t.Context(), "s/x", nil, facade.WithProgress(func(mcpvisor.Progress) { runtime.Goexit() }))
	})
	ended.Wait()
	_, err = c.CallTool(t.Context(), "s/x", nil)
	require.NoError(t, err, "nothing is in flight")
	status, _ := c.ServerStatus("s")
	require.Zero(t, status.Calls.InFlight)
	require.EqualValues(t, 2, status.Calls.Failed)
}

// The server loses the session while a callback runs. The next incarnation does not wait
// for the callback.
func TestWithProgress_slow_callback_does_not_delay_the_next_incarnation(t *testing.T) {
	var gone atomic.Bool
	srv := progressing(t, &gone)
	c := registered(t, mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraLegacy, HTTP: srv,
		Policy: supervisor.Retry(5, 10*time.Millisecond), Timeouts: mcpvisor.Timeouts{Shutdown: 500 * time.Millisecond}})
	in, leave := make(chan struct{}), make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = c.CallTool(context.Background(), "s/x", nil, facade.WithProgress(func(mcpvisor.Progress) { close(in); <-leave }))
	}()
	<-in
	defer func() { close(leave); <-ended }()
	gone.Store(true)
	_, err := c.CallTool(t.Context(), "s/x", nil)
	require.Error(t, err) // the session is lost
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = c.CallTool(ctx, "s/x", nil, facade.WithWaitReady())
	require.NoError(t, err)
}

// All 50 progress notifications are delivered before CallTool returns.
func TestWithProgress_on_every_transport(t *testing.T) {
	onEveryTransport(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c := registered(t, spec)
		var seen []float64
		r, err := c.CallTool(t.Context(), "s/slow_progress", map[string]any{"steps": 50, "ms": 1},
			facade.WithProgress(func(p mcpvisor.Progress) { seen = append(seen, p.Progress) }))
		require.NoError(t, err)
		require.False(t, r.IsError)
		require.Len(t, seen, 50)
		require.IsIncreasing(t, seen)
	})
}

// A function of the caller that panics while a large answer about its task is held leaves nothing in
// Limits.MaxBufferBytes: later answers find room.
func TestCallTool_as_a_task_whose_progress_panics(t *testing.T) {
	padding := strings.Repeat("x", 1<<20)
	c := registered(t, mcpvisor.ServerSpec{Name: "s", Limits: mcpvisor.Limits{MaxBufferBytes: 1 << 20},
		InMemory: rawServer(func(method, line string) string {
			switch method {
			case "tools/call":
				if !strings.Contains(line, `"as":"task"`) {
					return `{"content":[{"type":"text","text":"` + padding + `"}],"resultType":"complete"}`
				}
				return `{"resultType":"task","taskId":"one","status":"working","pollIntervalMs":1}`
			case "tasks/get":
				return `{"resultType":"complete","taskId":"one","status":"working","statusMessage":"half done","pollIntervalMs":1,"_meta":{"padding":"` + padding + `"}}`
			}
			return modernTasks(method)
		})})
	for range 3 {
		require.PanicsWithValue(t, "of the host", func() {
			_, _ = c.CallTool(t.Context(), "s/x", map[string]any{"as": "task"}, facade.WithTimeout(10*time.Second),
				facade.WithProgress(func(mcpvisor.Progress) { panic("of the host") }))
		})
	}
	_, err := c.CallTool(t.Context(), "s/x", nil, facade.WithTimeout(10*time.Second))
	require.NoError(t, err)
}
