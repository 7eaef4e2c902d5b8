package streamable

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// newResumingServer makes a server that answers a call with the events first, and ends the
// stream. again replies to the requests that resume the stream. The times are those of the
// call and of these requests.
func newResumingServer(t *testing.T, first string, again handler) (*memoryTransport, mcpvisor.ServerSpec, *[]time.Time) {
	t.Helper()
	web := newMemoryTransport(t)
	requested := new([]time.Time)
	var call string
	web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
		call = string(id)
		*requested = append(*requested, time.Now())
		replyEvents(first)(w, r, id)
	})
	web.handle("GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		if r.Header.Get("Last-Event-ID") == "" {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		*requested = append(*requested, time.Now())
		again(w, r, json.RawMessage(call))
	})
	return web, web.spec(), requested
}

// resumeCall sends the answer to the call on an event stream.
func resumeCall(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
	startEvents(w)("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, helloResult)
}

// The event stream of an answer is resumed after the delay that the server sets, within
// bounds, and again as long as new events arrive.
func TestStreamAnswer_resumeDelay(t *testing.T) {
	const s = time.Second
	again := func(n int, replies ...handler) handler { // the first n times the reply, then the answer
		return func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			if n--; n >= 0 {
				replies[0](w, r, id)
				return
			}
			resumeCall(w, r, id)
		}
	}
	sent := 0
	rows := map[string]struct {
		first string
		again handler
		waits []time.Duration
	}{
		"short delay of the server":       {"id: a\nretry: 10\n\n", again(0), []time.Duration{reopenDelay}},
		"default delay":                   {"id: a\n\n", again(0), []time.Duration{firstRetryDelay}},
		"long delay of the server":        {"id: a\nretry: 20000\n\n", again(1, replyEvents("")), []time.Duration{20 * s, 20 * s}},
		"delay of the server is bounded":  {"id: a\nretry: 31536000000\n\n", again(1, replyEvents("")), []time.Duration{maxRetryDelay, maxRetryDelay}},
		"too many requests":               {"id: a\n\n", again(1, replyRetryLater(429, "7")), []time.Duration{firstRetryDelay, 7 * s}},
		"service unavailable":             {"id: a\n\n", again(1, replyRetryLater(503, "7")), []time.Duration{firstRetryDelay, 7 * s}},
		"the broken stream is still held": {"id: a\n\n", again(1, replyRetryLater(409, "")), []time.Duration{firstRetryDelay, s}},
		"new event each time": {"id: a\nretry: 10\n\n", again(2*maxStreamResumes, func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
			sent++
			startEvents(w)("id: %d\nretry: 10\n\n", sent)
		}), []time.Duration{reopenDelay, reopenDelay, reopenDelay}},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				web, spec, requested := newResumingServer(t, row.first, row.again)
				session := openSession(t, spec)
				got, err := session.Request(t.Context(), transporttest.ToolCall)
				require.NoError(t, err)
				require.JSONEq(t, helloResult, string(got))
				for i, want := range row.waits {
					require.InDelta(t, want+want/8, (*requested)[i+1].Sub((*requested)[i]), float64(want/8+1), "wait %d", i+1)
				}
				require.Len(t, web.requests("tools/call"), 1, "the call was sent twice")
			})
		})
	}
}

// If the stream cannot be resumed, the outcome of the call is unknown, because the call was
// sent. The number of attempts is bounded.
func TestStreamAnswer_notResumedWasSent(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	rows := map[string]struct {
		again   handler
		fails   error // the error of the connection, instead of again
		tries   int
		crashed bool
	}{
		"unreachable":                     {nil, dial(errors.New("no route to host")), maxStreamResumes, false},
		"connection refused":              {nil, dial(syscall.ECONNREFUSED), 1, true},
		"the session is lost":             {replyRetryLater(404, ""), nil, 1, true},
		"service unavailable":             {replyRetryLater(503, ""), nil, maxStreamResumes, false},
		"the broken stream is still held": {replyRetryLater(409, ""), nil, maxStreamResumes, false},
		"the event is forgotten":          {replyRetryLater(400, ""), nil, 1, false},
		"not implemented":                 {replyRetryLater(501, ""), nil, 1, false},
		"no new event":                    {replyEvents("id: a\n\n"), nil, maxStreamResumes, false},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				web, spec, _ := newResumingServer(t, "id: a\n\n", row.again)
				tries := 0
				spec.HTTP.Client = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
					if r.Header.Get("Last-Event-ID") != "" {
						if tries++; row.fails != nil {
							return nil, row.fails
						}
					}
					return web.RoundTrip(r)
				})}
				s := openSession(t, spec)
				_, err := s.Request(t.Context(), transporttest.ToolCall)
				var e *mcpvisor.Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome, e.Error())
				require.Equal(t, row.tries, tries)
				require.Equal(t, row.crashed, s.Cause() != nil)
				require.Len(t, web.requests("tools/call"), 1, "the call was sent twice")
			})
		})
	}
}

// A stream is resumed only if its events have ids, and only before MCP 2026-07-28.
func TestStreamAnswer_modernNotResumed(t *testing.T) {
	for first, modern := range map[string]bool{"id: a\ndata:\n\n": true, "data:\n\n": false} {
		synctest.Test(t, func(t *testing.T) {
			web, spec, requested := newResumingServer(t, first, resumeCall)
			if modern {
				web.handle("server/discover", replyModern)
			}
			s := openSession(t, spec)
			require.Equal(t, modern, s.server.isModern())
			streams := len(web.requests("GET"))
			e := requireCallFails(t, s)
			require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome, e.Error())
			require.Len(t, *requested, 1)
			require.Len(t, web.requests("GET"), streams)
		})
	}
}

// replyModern answers server/discover as a modern server.
func replyModern(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, id, transporttest.ModernAnswer)
}

// An empty id resets the last event id (HTML standard, server-sent events), so the stream
// cannot be resumed.
func TestStreamAnswer_emptyIDNotResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, spec, requested := newResumingServer(t, "id: a\ndata:\n\nid:\ndata:\n\n", resumeCall)
		s := openSession(t, spec)
		e := requireCallFails(t, s)
		require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome, e.Error())
		require.Len(t, *requested, 1, "the stream was resumed")
	})
}
