package streamable

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// stallBody makes a handler that sends an error status and the beginning of its body, and
// then nothing more until the client leaves.
func stallBody(code int, text string) handler {
	return func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		w.WriteHeader(code)
		_, _ = w.Write([]byte(text))
		<-r.Context().Done()
	}
}

// The body of an error status may stall: its status is the error, after BodyTimeout. A body
// that only arrives slowly is read to its end.
func TestErrorStatus_bodyStalls(t *testing.T) {
	slow := func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		w.WriteHeader(http.StatusBadRequest)
		for _, c := range fmt.Sprintf(`{"id":%s,"error":{"code":1,"message":"no"}}`, id) {
			time.Sleep(endpoint.BodyTimeout / 2)
			_, _ = w.Write([]byte(string(c)))
		}
	}
	rows := map[string]struct {
		reply handler
		kind  mcpvisor.ErrorKind
		after time.Duration // at least this, and less than the next second
	}{
		"no authorization":  {stallBody(401, ""), mcpvisor.KindAuthRequired, endpoint.BodyTimeout},
		"too many requests": {stallBody(429, "slow down"), mcpvisor.KindUnavailable, endpoint.BodyTimeout},
		"a cut answer":      {stallBody(500, `{"jsonrpc":"2.0","error":{"code":`), mcpvisor.KindProtocol, endpoint.BodyTimeout},
		"a slow answer":     {slow, mcpvisor.KindRPC, 10 * endpoint.BodyTimeout},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				web := newMemoryTransport(t)
				s := openSession(t, web.spec())
				web.handle("tools/call", row.reply)
				began := time.Now()
				call := transporttest.ToolCall
				call.Timeout = time.Minute
				_, err := s.Request(t.Context(), call)
				var e *mcpvisor.Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, row.kind, e.Kind, e.Error())
				require.GreaterOrEqual(t, time.Since(began), row.after)
				require.Less(t, time.Since(began), 3*row.after)
				synctest.Wait() // the body is closed after its answer
				require.Empty(t, web.unclosed())
			})
		})
	}
}

// A notification that the server refuses with a body that stalls does not delay the start.
func TestErrorStatus_bodyOfNotificationStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := newMemoryTransport(t)
		web.handle("notifications/initialized", stallBody(400, ""))
		began := time.Now()
		s := openSession(t, web.spec())
		require.LessOrEqual(t, time.Since(began), 2*endpoint.BodyTimeout)
		requireServing(t, s)
	})
}

// The empty body of a 404 proves that a request was not carried out only if it is known to
// be empty.
func TestErrorStatus_brokenBodyProvesNothing(t *testing.T) {
	web := newHTTPServer(t)
	web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		w.WriteHeader(http.StatusNotFound)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	e := requireCallFails(t, openSession(t, specFor(web.URL)))
	require.Equal(t, mcpvisor.KindCrashed, e.Kind, e.Error())
	require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
}
