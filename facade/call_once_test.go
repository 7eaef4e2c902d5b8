package facade_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
	"github.com/mcpvisor/mcpvisor/mcptest/raw"
	"github.com/mcpvisor/mcpvisor/oauth"
	"github.com/mcpvisor/mcpvisor/supervisor"
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

// WithWaitReady waits for a server that is down, and not for one that is overloaded.
func TestWithWaitReady_does_not_wait_for_a_slot(t *testing.T) {
	c := newClient(t)
	busy := make(chan struct{}, 8)
	silent := rawServer(func(method, _ string) string {
		if method == "tools/call" {
			busy <- struct{}{}
			return silence
		}
		return ""
	})
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: silent, Limits: mcpvisor.Limits{MaxInFlight: 1, MaxQueued: -1}}))
	first, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { _, err := c.CallTool(first, "s/x", nil); left <- err }()
	<-busy
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := c.CallTool(ctx, "s/x", nil, facade.WithWaitReady())
	require.ErrorIs(t, err, mcpvisor.ErrOverloaded)
	require.NoError(t, ctx.Err(), "at once")
	leave()
	require.ErrorIs(t, <-left, mcpvisor.ErrCanceled)
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
