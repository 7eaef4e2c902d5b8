package facade_test

import (
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
	"github.com/mcpvisor/mcpvisor/mcptest/raw"
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
			c := newClient(t)
			require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "web", Policy: supervisor.Retry(5, time.Millisecond), HTTP: server}))
			_, err := c.CallTool(t.Context(), "web/x", nil, facade.WithWaitReady())
			var e *mcpvisor.Error
			require.ErrorAs(t, err, &e)
			require.NotEqual(t, mcpvisor.OutcomeNotSent, e.Outcome, e.Error())
			require.EqualValues(t, 1, calls.Load(), "the call ran twice")
		})
	}
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
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "web", Policy: supervisor.Retry(5, time.Millisecond),
		HTTP: server}))
	_, err := c.CallTool(t.Context(), "web/x", nil, facade.WithWaitReady())
	var e *mcpvisor.Error
	require.True(t, errors.As(err, &e), "%v", err)
	require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome, e.Error())
	require.EqualValues(t, 1, calls.Load(), "the call ran twice")
}
