package streamable

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// An error with the id of the request is its answer, whatever the status. The session
// continues, and the outcome is OutcomeAnswered.
func TestErrorStatus_errorWithRequestID(t *testing.T) {
	rows := []struct {
		status, code int
		message      string
	}{
		{400, -32000, "database session expired"},
		{400, -32603, "no such session variable"},
		{400, -32000, "Server not initialized"},
		{404, -32002, "Resource not found"},
		{404, -32601, "Method not found"},
		{404, -32001, "database session expired"},
		{400, -32001, "Session not found"},
		{409, -32000, "conflict"},
		{500, -32603, "internal"},
		{502, -32603, "backend failed"},
	}
	for _, row := range rows {
		t.Run(strconv.Itoa(row.status)+" "+row.message, func(t *testing.T) {
			web := newHTTPServer(t)
			web.handle("tools/call", firstTime(func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(row.status)
				writeError(w, id, row.code, row.message)
			}))
			s := openSession(t, specFor(web.URL))
			e := requireCallFails(t, s)
			require.Equal(t, mcpvisor.KindRPC, e.Kind, e.Error())
			require.Equal(t, mcpvisor.OutcomeAnswered, e.Outcome)
			var rpc *sdkrpc.Error
			require.ErrorAs(t, e, &rpc)
			require.EqualValues(t, row.code, rpc.Code)
			requireServing(t, s)
		})
	}
}

// A status that requires an action of the user (401, 403, 429) outranks a JSON-RPC error in
// the body.
func TestErrorStatus_outranksBody(t *testing.T) {
	rows := map[int]mcpvisor.ErrorKind{401: mcpvisor.KindAuthRequired, 403: mcpvisor.KindAuthRequired, 429: mcpvisor.KindUnavailable}
	for code, kind := range rows {
		web := newHTTPServer(t)
		web.handle("tools/call", firstTime(func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			w.WriteHeader(code)
			writeError(w, id, -32000, "no session for you")
		}))
		s := openSession(t, specFor(web.URL))
		e := requireCallFails(t, s)
		require.Equal(t, kind, e.Kind, e.Error())
		require.Equal(t, mcpvisor.OutcomeAnswered, e.Outcome)
		var rpc *sdkrpc.Error
		require.True(t, errors.As(e, &rpc), "the JSON-RPC error is wrapped")
		requireServing(t, s)
	}
}

// A restarted server may answer 400 "not initialized" instead of 404, because its new
// process has received no initialize. That ends the session; without a session id the
// error is only that of the call.
func TestErrorStatus_notInitialized(t *testing.T) {
	texts := []string{"Bad Request: Server not initialized", "Bad Request: No valid session ID provided", "Session not found"}
	for _, text := range texts {
		reply := replyStatus(400, "application/json", `{"jsonrpc":"2.0","error":{"code":-32000,"message":"`+text+`"},"id":null}`)
		web := newHTTPServer(t)
		web.handle("tools/call", reply)
		s := openSession(t, specFor(web.URL))
		e := requireCallFails(t, s)
		require.Equal(t, mcpvisor.KindCrashed, e.Kind, e.Error())
		require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
		transporttest.RequireClosed(t, s.Dead(), text)
		require.Equal(t, supervisor.CauseClosed, s.Cause().Kind)

		web = newHTTPServer(t)
		web.session = ""
		web.handle("tools/call", firstTime(reply))
		s = openSession(t, specFor(web.URL))
		require.Equal(t, mcpvisor.KindRPC, requireCallFails(t, s).Kind)
		requireServing(t, s)
		require.Eventually(t, func() bool { return s.calls.refusals.Load() == 0 }, transporttest.Patience, transporttest.TimeStep, "the check of the refused call")
	}
}

// A JSON-RPC error in the body of an error status is read whole, up to
// Limits.MaxMessageBytes.
func TestErrorStatus_longBody(t *testing.T) {
	data := strings.Repeat("x", 2*endpoint.MaxErrorBody)
	web := newHTTPServer(t)
	web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no","data":%q}}`, id, data)
	})
	var rpc *sdkrpc.Error
	require.ErrorAs(t, requireCallFails(t, openSession(t, specFor(web.URL))), &rpc)
	require.Len(t, rpc.Data, len(data)+2)
}
