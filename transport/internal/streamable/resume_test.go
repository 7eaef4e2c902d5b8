package streamable

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// newResumingServer is a server whose answer to a call breaks off after one event with
// an id, and the session with it. again replies to the requests for the rest.
func newResumingServer(t *testing.T, first string, again handler) (*memoryTransport, mcpvisor.ServerSpec, *[]time.Time) {
	t.Helper()
	web := newMemoryTransport(t)
	asked := new([]time.Time)
	var call string
	web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
		call = string(id)
		*asked = append(*asked, time.Now())
		replyEvents(first)(w, r, id)
	})
	web.handle("GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		if r.Header.Get("Last-Event-ID") == "" {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		*asked = append(*asked, time.Now())
		again(w, r, json.RawMessage(call))
	})
	return web, web.spec(), asked
}

// resumeCall is the answer to the call.
func resumeCall(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
	startEvents(w)("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, helloResult)
}

// The rest of an answer is asked for at the pace that the server names, within
// bounds, and for as long as new events come.
func TestStreamAnswer_resumeDelay(t *testing.T) {
	const s = time.Second
	again := func(n int, replies ...handler) handler { // n times the first
		return func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			if n--; n >= 0 {
				replies[0](w, r, id)
				return
			}
			resumeCall(w, r, id)
		}
	}
	news := 0
	rows := map[string]struct {
		first string
		again handler
		waits []time.Duration
	}{
		"at once, if asked to":       {"id: a\nretry: 10\n\n", again(0), []time.Duration{10 * time.Millisecond}},
		"not sooner than that":       {"id: a\n\n", again(0), []time.Duration{firstRetryDelay}},
		"when it says":               {"id: a\nretry: 20000\n\n", again(1, replyEvents("")), []time.Duration{20 * s, 20 * s}},
		"not in a year":              {"id: a\nretry: 31536000000\n\n", again(1, replyEvents("")), []time.Duration{maxRetryDelay, maxRetryDelay}},
		"too many requests":          {"id: a\n\n", again(1, replyRetryLater(429, "7")), []time.Duration{firstRetryDelay, 7 * s}},
		"out of service for so long": {"id: a\n\n", again(1, replyRetryLater(503, "7")), []time.Duration{firstRetryDelay, 7 * s}},
		"again and again, with news": {"id: a\nretry: 10\n\n", again(2*maxStreamResumes, func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
			news++
			startEvents(w)("id: %d\nretry: 10\n\n", news)
		}), []time.Duration{10 * time.Millisecond, 10 * time.Millisecond, 10 * time.Millisecond}},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			transporttest.InBubble(t, func(t *testing.T) {
				web, spec, asked := newResumingServer(t, row.first, row.again)
				session := openInMemory(t, spec)
				got, err := session.Request(t.Context(), transporttest.ToolCall)
				require.NoError(t, err)
				require.JSONEq(t, helloResult, string(got))
				for i, want := range row.waits {
					require.InDelta(t, want+want/8, (*asked)[i+1].Sub((*asked)[i]), float64(want/8+1), "wait %d", i+1)
				}
				require.Len(t, web.requests("tools/call"), 1, "the call was sent twice")
			})
		})
	}
}

// A call whose answer broke off was sent, whatever becomes of the attempts to
// hear the rest of it. These are bounded.
func TestStreamAnswer_notResumedWasSent(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	rows := map[string]struct {
		again   handler
		fails   error // instead
		tries   int
		crashed bool
	}{
		"unreachable":         {nil, dial(errors.New("no route to host")), maxStreamResumes, false},
		"nobody there":        {nil, dial(syscall.ECONNREFUSED), 1, true},
		"the session is lost": {replyRetryLater(404, ""), nil, 1, true},
		"unwilling":           {replyRetryLater(503, ""), nil, maxStreamResumes, false},
		"unable":              {replyRetryLater(501, ""), nil, 1, false},
		"nothing new":         {replyEvents("id: a\n\n"), nil, maxStreamResumes, false},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			transporttest.InBubble(t, func(t *testing.T) {
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
				s := openInMemory(t, spec)
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

// A stream is asked for again only where that was agreed on: with ids, and
// before 2026-07-28.
func TestStreamAnswer_modernNotResumed(t *testing.T) {
	for first, modern := range map[string]bool{"id: a\ndata:\n\n": true, "data:\n\n": false} {
		transporttest.InBubble(t, func(t *testing.T) {
			web, spec, asked := newResumingServer(t, first, resumeCall)
			if modern {
				web.handle("server/discover", replyModern)
			}
			s := openInMemory(t, spec)
			require.Equal(t, modern, s.isModern())
			streams := len(web.requests("GET"))
			e := requireCallFails(t, s)
			require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome, e.Error())
			require.Len(t, *asked, 1)
			require.Len(t, web.requests("GET"), streams)
		})
	}
}

func replyModern(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, id, transporttest.ModernAnswer)
}

// TestStreamAnswer_emptyIDNotResumed: "If the field value is empty, the last event ID is
// reset" (HTML, server-sent events), so that nothing names the place to go on.
func TestStreamAnswer_emptyIDNotResumed(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		_, spec, asked := newResumingServer(t, "id: a\ndata:\n\nid:\ndata:\n\n", resumeCall)
		s := openInMemory(t, spec)
		e := requireCallFails(t, s)
		require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome, e.Error())
		require.Len(t, *asked, 1, "the stream was resumed")
	})
}
