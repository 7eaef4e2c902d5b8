package facade_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// progressing is a legacy server over HTTP that reports progress once and then
// hangs, when its tool is called with "hang".
func progressing(t *testing.T, gone *atomic.Bool) *httptest.Server {
	t.Helper()
	quit := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			incoming
			Params struct {
				Meta struct {
					ProgressToken json.RawMessage `json:"progressToken"`
				} `json:"_meta"`
			} `json:"params"`
		}
		switch err := json.Unmarshal(body, &m); {
		case gone != nil && gone.Swap(false):
			w.WriteHeader(http.StatusNotFound)
		case err != nil || r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case m.ID == nil:
			w.WriteHeader(http.StatusAccepted)
		case m.Method == "server/discover":
			w.WriteHeader(http.StatusBadRequest)
		case m.Method == "tools/call":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%s,\"progress\":1}}\n\n", m.Params.Meta.ProgressToken)
			w.(http.Flusher).Flush()
			select {
			case <-time.After(300 * time.Millisecond):
			case <-quit:
			}
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[]}}\n\n", m.ID)
		default:
			if m.Method == "initialize" {
				w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", time.Now().UnixNano()))
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, shakeHands(m.Method))
		}
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(func() { close(quit) })
	return srv
}

// A callback that panics (and is recovered by the host, as net/http does) must
// not use up a place in Limits.InFlight.
func TestWithProgress_panic_releases_the_slot(t *testing.T) {
	srv := progressing(t, nil)
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraLegacy, HTTP: &mcpvisor.HTTP{URL: srv.URL},
		Limits: mcpvisor.Limits{MaxInFlight: 1, MaxQueued: -1}}))
	func() {
		defer func() { require.NotNil(t, recover()) }()
		_, _ = c.CallTool(t.Context(), "s/x", nil, facade.WithProgress(func(mcpvisor.Progress) { panic("of the host") }))
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

// A callback that takes its time holds up its own call; not the shutdown.
func TestWithProgress_slow_callback_does_not_delay_Unregister(t *testing.T) {
	srv := progressing(t, nil)
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraLegacy, HTTP: &mcpvisor.HTTP{URL: srv.URL},
		Timeouts: mcpvisor.Timeouts{Shutdown: 500 * time.Millisecond}}))
	in, leave := make(chan struct{}), make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = c.CallTool(context.Background(), "s/x", nil, facade.WithProgress(func(mcpvisor.Progress) { close(in); <-leave }))
	}()
	<-in
	defer func() { close(leave); <-ended }()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	began := time.Now()
	err := c.Unregister(ctx, "s")
	require.NoError(t, err, "after %v", time.Since(began))
}

// A callback that removes its server, or closes the client, waits for itself.
func TestWithProgress_callback_may_Unregister(t *testing.T) {
	srv := progressing(t, nil)
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraLegacy, HTTP: &mcpvisor.HTTP{URL: srv.URL},
		Timeouts: mcpvisor.Timeouts{Shutdown: 500 * time.Millisecond}}))
	var err error
	_, _ = c.CallTool(context.Background(), "s/x", nil, facade.WithProgress(func(mcpvisor.Progress) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = c.Unregister(ctx, "s")
	}))
	require.NoError(t, err)
}

// The server forgets the session while a callback runs: the next incarnation
// must not wait for the callback.
func TestWithProgress_slow_callback_does_not_delay_the_next_incarnation(t *testing.T) {
	var gone atomic.Bool
	srv := progressing(t, &gone)
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraLegacy, HTTP: &mcpvisor.HTTP{URL: srv.URL},
		Policy: supervisor.Retry(5, 10*time.Millisecond), Timeouts: mcpvisor.Timeouts{Shutdown: 500 * time.Millisecond}}))
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
