package facade_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
	"github.com/mcpvisor/mcpvisor/oauth"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/raw"
)

// workingHTTP starts a server with a session that counts its calls and answers them by
// reply.
func workingHTTP(t *testing.T, reply func(w http.ResponseWriter, id json.RawMessage)) (*mcpvisor.HTTP, *atomic.Int32) {
	t.Helper()
	calls := new(atomic.Int32)
	return overHTTP(t, &raw.Server{Session: "s", Answer: func(m *raw.Message) string {
		if m.Method != "tools/call" {
			return rawMembers(m)
		}
		calls.Add(1)
		reply(m.W, m.ID)
		return raw.None
	}}), calls
}

// retrying is a RoundTripper that repeats requests by itself: its first attempt is
// executed, the second is refused.
type retrying struct {
	http.RoundTripper
	calls *atomic.Int32
}

// RoundTrip implements http.RoundTripper.
func (r retrying) RoundTrip(req *http.Request) (*http.Response, error) {
	before := r.calls.Load()
	resp, err := r.RoundTripper.RoundTrip(req)
	if err != nil || r.calls.Load() == before {
		return resp, err
	}
	_ = resp.Body.Close()
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

func TestWithWaitReady_runs_a_call_once_through_a_foreign_RoundTripper(t *testing.T) {
	server, calls := workingHTTP(t, func(w http.ResponseWriter, _ json.RawMessage) { w.WriteHeader(http.StatusOK) })
	own := &http.Transport{}
	server.Client = &http.Client{Transport: retrying{own, calls}}
	t.Cleanup(own.CloseIdleConnections)
	c := registered(t, mcpvisor.ServerSpec{Name: "web", Policy: supervisor.Retry(5, time.Millisecond),
		HTTP: server})
	_, err := c.CallTool(t.Context(), "web/x", nil, facade.WithWaitReady())
	var e *mcpvisor.Error
	require.True(t, errors.As(err, &e), "%v", err)
	require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome, e.Error())
	require.EqualValues(t, 1, calls.Load(), "the call ran twice")
}

// A gateway may answer 503 although the server behind it executes the call. So the call
// is not repeated.
func TestWithWaitReady_does_not_repeat_a_call_with_unknown_outcome(t *testing.T) {
	c := newClient(t)
	var ran atomic.Int64
	server := rawCalls(t, "", func(w http.ResponseWriter, _ *http.Request) {
		ran.Add(1)
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", HTTP: server}))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := c.CallTool(ctx, "s/x", nil, facade.WithWaitReady())
	require.ErrorIs(t, err, mcpvisor.ErrUnavailable)
	var e *mcpvisor.Error
	require.ErrorAs(t, err, &e)
	require.NotEqual(t, mcpvisor.OutcomeNotSent, e.Outcome)
	require.Equal(t, time.Minute, e.RetryAfter)
	require.False(t, e.Retryable())
	require.EqualValues(t, 1, ran.Load())
	text, err := json.Marshal(c.CallToolForModel(ctx, "s/x", nil, facade.WithWaitReady()))
	require.NoError(t, err)
	require.NotContains(t, string(text), "nothing was done")
	require.EqualValues(t, 2, ran.Load())
}

// While the network is down the endpoint is unreachable and its server stays ready.
// Waiting calls pause between attempts.
func TestWithWaitReady_pauses_between_attempts(t *testing.T) {
	c := newClient(t)
	server := rawCalls(t, "", nil)
	var tries atomic.Int64
	away := tripperFunc(func(r *http.Request) (*http.Response, error) {
		if r.Body == nil {
			return http.DefaultTransport.RoundTrip(r)
		}
		body, err := io.ReadAll(r.Body)
		if err == nil && bytes.Contains(body, []byte("tools/call")) {
			tries.Add(1)
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("no route to host")}
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
		return http.DefaultTransport.RoundTrip(r)
	})
	server.Client = &http.Client{Transport: away}
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", HTTP: server}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := c.CallTool(ctx, "s/x", nil, facade.WithWaitReady())
	require.Error(t, err)
	require.LessOrEqual(t, tries.Load(), int64(5), "100, 200, 400 ms between them")
}

// WithWaitReady waits for a server that has too much to do, as for one that is down, and until its context ends.
func TestWithWaitReady_waits_for_a_slot(t *testing.T) {
	c := newClient(t)
	busy := make(chan struct{}, 8)
	calls := 0
	silent := rawServer(func(method, _ string) string {
		if method == "tools/call" {
			if calls++; calls == 1 {
				busy <- struct{}{}
				return silence
			}
			return `{"content":[]}`
		}
		return ""
	})
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: silent, Limits: mcpvisor.Limits{MaxInFlight: 1, MaxQueued: -1}}))
	first, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { _, err := c.CallTool(first, "s/x", nil); left <- err }()
	<-busy
	_, err := c.CallTool(t.Context(), "s/x", nil)
	require.ErrorIs(t, err, mcpvisor.ErrOverloaded)
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	_, err = c.CallTool(ctx, "s/x", nil, facade.WithWaitReady())
	require.ErrorIs(t, err, mcpvisor.ErrOverloaded, "the reason, and not the end of the wait alone")
	require.Error(t, ctx.Err(), "it has waited")
	waits := make(chan error, 1)
	go func() { _, err := c.CallTool(t.Context(), "s/x", nil, facade.WithWaitReady()); waits <- err }()
	leave()
	require.ErrorIs(t, <-left, mcpvisor.ErrCanceled)
	require.NoError(t, <-waits)
}

// The caller's context ends the wait, however long Retry-After is.
func TestWithWaitReady_ends_with_its_context(t *testing.T) {
	guard := newGuarded(t)
	guard.AddClient("service", "service-secret")
	c := registered(t, mcpvisor.ServerSpec{Name: "web", HTTP: &mcpvisor.HTTP{URL: guard.URL,
		Auth: &oauth.Config{Grant: oauth.GrantClientCredentials, ClientID: "service", ClientSecret: "service-secret"}}})
	guard.Set(oauthtest.Rules{Token: func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}})
	guard.Revoke(false, false)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ctx, "web/echo", map[string]any{"text": "x"}, facade.WithWaitReady())
		done <- err
	}()
	select {
	case err := <-done:
		require.Error(t, err)
		requireOutcome(t, err, mcpvisor.OutcomeNotSent)
	case <-time.After(30 * time.Second):
		require.FailNow(t, "the call still waits")
	}
}

func TestWithWaitReady_accepts_aliases(t *testing.T) {
	c, plain, hashed := crashed(t, 50*time.Millisecond)
	for _, name := range []string{plain, hashed} {
		res, err := c.CallTool(t.Context(), name, map[string]any{"text": "back"}, facade.WithWaitReady())
		require.NoError(t, err, name)
		require.False(t, res.IsError)
	}
}

// A call that the server has executed is not repeated, although its caller waits for the
// server to be ready.
func TestWithWaitReady_runs_a_call_once_over_HTTP(t *testing.T) {
	replying := func(code int, kind, body string) func(http.ResponseWriter, json.RawMessage) {
		return func(w http.ResponseWriter, _ json.RawMessage) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	rows := map[string]func(w http.ResponseWriter, id json.RawMessage){
		"400 with the word session": replying(400, "text/plain", "payment booked; closing the browser session failed"),
		"404 after work":            replying(404, "text/plain", "payment 7 booked; template not found"),
		"404 with a page":           replying(404, "text/html", "<p>not found"),
		"404 with our id": func(w http.ResponseWriter, id json.RawMessage) {
			w.WriteHeader(404)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(id)+`,"error":{"code":-32001,"message":"payment booked; the session id of the browser is gone"}}`)
		},
	}
	for name, reply := range rows {
		t.Run(name, func(t *testing.T) {
			server, calls := workingHTTP(t, reply)
			c := registered(t, mcpvisor.ServerSpec{Name: "web", Policy: supervisor.Retry(5, time.Millisecond), HTTP: server})
			_, err := c.CallTool(t.Context(), "web/x", nil, facade.WithWaitReady())
			var e *mcpvisor.Error
			require.ErrorAs(t, err, &e)
			require.NotEqual(t, mcpvisor.OutcomeNotSent, e.Outcome, e.Error())
			require.EqualValues(t, 1, calls.Load(), "the call ran twice")
		})
	}
}

// A call that the server has executed is not repeated although its POST ended with an
// empty 404. The client may read the answer or the 404 first, so there are many calls.
func TestWithWaitReady_runs_a_call_once_over_SSE(t *testing.T) {
	url, calls := workingSSE(t, http.StatusNotFound)
	c := registered(t, mcpvisor.ServerSpec{Name: "old", Policy: supervisor.Retry(100, time.Millisecond), HTTP: &mcpvisor.HTTP{URL: url, SSE: true}})
	for call := range 20 {
		before := calls.Load()
		_, err := c.CallTool(t.Context(), "old/pay", map[string]any{}, facade.WithWaitReady())
		require.LessOrEqual(t, calls.Load()-before, int32(1), "call %d ran twice (%v)", call, err)
	}
}

// workingSSE starts a server over HTTP+SSE that counts its calls, answers them on its
// stream, and ends their POST requests with the given status.
func workingSSE(t *testing.T, status int) (url string, calls *atomic.Int32) {
	t.Helper()
	calls = new(atomic.Int32)
	var mu sync.Mutex
	var stream chan string // of the session that was opened last
	quit := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			mine := make(chan string, 16)
			mu.Lock()
			stream = mine
			mu.Unlock()
			w.Header().Set("Content-Type", "text/event-stream")
			text := "event: endpoint\ndata: /messages?s=1\n\n"
			for {
				_, _ = io.WriteString(w, text)
				w.(http.Flusher).Flush()
				select {
				case text = <-mine:
				case <-r.Context().Done():
					return
				case <-quit:
					return
				}
			}
		}
		body, _ := io.ReadAll(r.Body)
		var m incoming
		if json.Unmarshal(body, &m) != nil || r.URL.Path != "/messages" {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		code, result := http.StatusAccepted, `{}`
		switch m.Method {
		case "initialize":
			result = `{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}`
		case "tools/list":
			result = `{"tools":[{"name":"pay","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			calls.Add(1)
			code, result = status, `{"content":[]}`
		}
		if m.ID != nil {
			mu.Lock()
			out := stream
			mu.Unlock()
			select {
			case out <- fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", m.ID, result):
			case <-quit:
			}
		}
		w.WriteHeader(code)
	}))
	t.Cleanup(func() {
		close(quit)
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL + "/sse", calls
}
