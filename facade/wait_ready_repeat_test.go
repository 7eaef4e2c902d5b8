package facade_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

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
