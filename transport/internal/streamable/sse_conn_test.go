package streamable

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
	"github.com/mcpvisor/mcpvisor/oauth"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/httpbody"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// TestSSE_call has what the hostile servers of package hostilehttp do not.
func TestSSE_call(t *testing.T) {
	for name, tc := range map[string]struct {
		reply   func(web *sseServer, w http.ResponseWriter, id json.RawMessage)
		kind    error // nil: the call succeeds
		outcome mcpvisor.Outcome
		want    string
		dies    bool
	}{
		"200 without a body": {reply: func(web *sseServer, w http.ResponseWriter, id json.RawMessage) {
			w.WriteHeader(200)
			web.answer("tools/call", id)
		}},
		"text with the media type of HTML": {reply: func(web *sseServer, w http.ResponseWriter, id json.RawMessage) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "Accepted")
			web.answer("tools/call", id)
		}},
		"id as a string": {reply: func(web *sseServer, _ http.ResponseWriter, id json.RawMessage) {
			web.send(`{"id":"%s","result":{"content":[{"type":"text","text":"hello"}]}}`, id)
		}},
		"batch": {reply: func(web *sseServer, _ http.ResponseWriter, id json.RawMessage) {
			web.send(`[7,{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"hello"}]}}]`, id)
		}},
		"error of the server": {reply: func(web *sseServer, _ http.ResponseWriter, id json.RawMessage) {
			web.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"no, %s"}}`, id, sseSecret)
		}, kind: mcpvisor.ErrRPC, outcome: mcpvisor.OutcomeAnswered, want: "no, ***"},
		"error without an id before the answer": {reply: func(web *sseServer, w http.ResponseWriter, id json.RawMessage) {
			w.WriteHeader(202)
			web.write("data: " + `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}` + "\n\n" +
				`data: {"jsonrpc":"2.0","id":` + string(id) + `,"result":` + helloResult + "}\n\n")
		}},
		"broken JSON": {reply: func(web *sseServer, _ http.ResponseWriter, id json.RawMessage) {
			web.send(`{"jsonrpc":"2.0","id":%s,"result":{"content":nothing}}`, id)
		}, kind: mcpvisor.ErrProtocol, outcome: mcpvisor.OutcomeAnswered, want: "not valid JSON"},
		"too long, id unknown": {reply: func(web *sseServer, _ http.ResponseWriter, _ json.RawMessage) {
			web.send(`{"result":{"content":"%s"}}`, strings.Repeat("x", 100_000))
		}, kind: mcpvisor.ErrProtocol, outcome: mcpvisor.OutcomeAnswered, want: "longer than 65536 bytes"},
		"refused, 401": {reply: func(_ *sseServer, w http.ResponseWriter, _ json.RawMessage) { w.WriteHeader(401) },
			kind: mcpvisor.ErrAuthRequired, outcome: mcpvisor.OutcomeAnswered, want: "HTTP 401"},
		"POST and answer never come": {reply: func(web *sseServer, _ http.ResponseWriter, _ json.RawMessage) { <-web.quit },
			kind: mcpvisor.ErrTimeout, outcome: mcpvisor.OutcomeUnknown},
		"stream breaks in the middle of the answer": {reply: func(web *sseServer, w http.ResponseWriter, id json.RawMessage) {
			w.WriteHeader(202)
			web.write(`data: {"jsonrpc":"2.0","id":` + string(id) + `,"result":{"con`)
			web.write("")
		}, kind: mcpvisor.ErrCrashed, outcome: mcpvisor.OutcomeUnknown, want: "event stream", dies: true},
	} {
		t.Run(name, func(t *testing.T) {
			web := newSSEServer(t)
			spec := sseSpec(web)
			spec.Limits.MaxMessageBytes = 64 << 10
			s := openSession(t, spec)
			web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) { tc.reply(web, w, id) })
			r := transporttest.ToolCall
			if tc.kind == mcpvisor.ErrTimeout {
				r.Timeout = 50 * time.Millisecond
			} else {
				r.Timeout = transporttest.Patience
			}
			got, err := s.Request(t.Context(), r)
			if tc.kind == nil {
				require.NoError(t, err)
				require.Contains(t, string(got), "hello")
			} else {
				require.ErrorIs(t, err, tc.kind)
				e := testutil.AsError[*mcpvisor.Error](t, err)
				require.Equal(t, tc.outcome, e.Outcome)
				require.Contains(t, err.Error(), tc.want)
				require.NotContains(t, err.Error(), sseSecret)
			}
			if tc.dies {
				transporttest.RequireClosed(t, s.Dead(), "the session is alive after the end of its stream")
				require.Equal(t, supervisor.CauseClosed, s.Cause().Kind)
				transporttest.RequireClosed(t, s.Released(), "session is not released")
				return
			}
			web.handle("tools/call", nil)
			requireServing(t, s)
			c := s.exchanger.sse.Load()
			require.Eventually(t, func() bool { // the check of the session may still be in flight
				c.mu.Lock()
				defer c.mu.Unlock()
				return len(c.waiting) == 0
			}, time.Minute, time.Millisecond, "a request that has ended is removed")
		})
	}
}

// A 404 over HTTP+SSE ends the session. The call counts as NotSent only if the text is that
// of an SDK, because MCP 2024-11-05 does not define the meaning of a 404.
func TestSSE_sessionLost(t *testing.T) {
	for name, row := range map[string]struct {
		kind, body string
		outcome    mcpvisor.Outcome
	}{
		"empty":                     {"", "", mcpvisor.OutcomeUnknown},
		"status text":               {"text/plain", "Not Found\n", mcpvisor.OutcomeUnknown},
		"of net/http":               {"text/plain", "404 page not found\n", mcpvisor.OutcomeUnknown},
		"of FastAPI":                {"application/json", `{"detail":"Not Found"}`, mcpvisor.OutcomeUnknown},
		"after work":                {"text/plain", "payment booked; template not found", mcpvisor.OutcomeUnknown},
		"of the Go SDK":             {"text/plain", "session not found\n", mcpvisor.OutcomeNotSent},
		"of the Python SDK":         {"text/plain", "Could not find session", mcpvisor.OutcomeNotSent},
		"of the TypeScript example": {"text/plain", "No transport found for sessionId", mcpvisor.OutcomeNotSent},
		"of the Java SDK":           {"application/json", `{"message":"Session not found: 41cb0bfd-8e"}`, mcpvisor.OutcomeNotSent},
	} {
		t.Run(name, func(t *testing.T) {
			web := newSSEServer(t)
			s := openSession(t, sseSpec(web))
			web.handle("tools/call", replyStatus(http.StatusNotFound, row.kind, row.body))
			e := requireCallFails(t, s)
			require.ErrorIs(t, e, mcpvisor.ErrCrashed)
			require.Equal(t, row.outcome, e.Outcome, e.Error())
			transporttest.RequireClosed(t, s.Dead(), "the session continues")
		})
	}
}

// An answer on the stream counts, although its POST is rejected or breaks.
func TestSSE_answerBeforeRefusedPOST(t *testing.T) {
	web := newSSEServer(t)
	s := openSession(t, sseSpec(web))
	c := s.exchanger.sse.Load()
	for name, p := range map[string]sseAnswer{
		"404":      {err: &endpoint.HTTPError{Status: http.StatusNotFound, SessionLost: true, Outcome: mcpvisor.OutcomeUnknown}},
		"500":      {err: &endpoint.HTTPError{Status: http.StatusInternalServerError, Outcome: mcpvisor.OutcomeAnswered}},
		"broken":   {err: endpoint.AnswerLost("broken", io.ErrUnexpectedEOF)},
		"error":    {reply: reply{errorMember: json.RawMessage(`{"code":-32000,"message":"no"}`)}},
		"accepted": {},
	} {
		t.Run(name, func(t *testing.T) {
			x := s.exchanger.table.start(t.Context(), 0)
			defer x.finish()
			request := c.addRequest(1<<40, x)
			require.True(t, c.deliver(1<<40, sseAnswer{reply: reply{result: json.RawMessage(`{}`)}}))
			got := c.afterPost(x, 1<<40, p, request)
			require.Nil(t, got.err)
			require.Nil(t, got.reply.errorMember)
			require.JSONEq(t, `{}`, string(got.reply.result))
			if p.isAccepted() {
				return
			}
			got = c.afterPost(x, 1<<40, p, c.addRequest(1<<40, x))
			require.Equal(t, p, got, "no answer has arrived")
			require.Empty(t, c.waiting)
		})
	}
}

// When the stream breaks, all calls in flight fail, and their outcome is unknown.
func TestSSE_crashWithCallsInFlight(t *testing.T) {
	web := newSSEServer(t)
	s := openSession(t, sseSpec(web))
	var arrived sync.WaitGroup
	arrived.Add(20)
	web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		w.WriteHeader(http.StatusAccepted)
		arrived.Done()
	})
	failed := make(chan error, 20)
	for range cap(failed) {
		go func() {
			_, err := s.Request(context.Background(), transporttest.ToolCall)
			failed <- err
		}()
	}
	arrived.Wait()
	web.write("") // the connections of the calls stay: one of them may not have its 202 yet
	for range cap(failed) {
		err := <-failed
		require.ErrorIs(t, err, mcpvisor.ErrCrashed)
		e := testutil.AsError[*mcpvisor.Error](t, err)
		require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
	}
	transporttest.RequireClosed(t, s.Released(), "session is not released")
	_, err := s.Request(t.Context(), transporttest.ToolCall)
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
}

// Headers of the spec and cookies are sent with the GET and with the POSTs.
func TestSSE_headersAndCookies(t *testing.T) {
	web := newSSEServer(t)
	spec := sseSpec(web)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	spec.HTTP.Client = &http.Client{Jar: jar}
	spec.HTTP.Headers = map[string]string{"X-Key": "canary-of-the-header"}
	web.handle("GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		http.SetCookie(w, &http.Cookie{Name: "sticky", Value: "seven"})
		web.stream(w, r)
	})
	requireServing(t, openSession(t, spec))
	for _, what := range []string{"initialize", "notifications/initialized", "tools/call"} {
		for _, r := range web.requests(what) {
			require.Equal(t, "canary-of-the-header", r.header.Get("X-Key"))
			require.Equal(t, "sticky=seven", r.header.Get("Cookie"))
			require.Equal(t, "/messages?sessionId="+sseSecret, r.url)
			require.Equal(t, "application/json", r.header.Get("Content-Type"))
		}
	}
	get := web.requests("GET")[0].header
	require.Equal(t, "text/event-stream", get.Get("Accept"))
	require.Equal(t, "canary-of-the-header", get.Get("X-Key"))
}

func TestSSE_serverMessages(t *testing.T) {
	web := newSSEServer(t)
	s := openSession(t, sseSpec(web))

	t.Run("progress", func(t *testing.T) {
		web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			w.WriteHeader(http.StatusAccepted)
			for n := range 3 {
				web.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, id, n+1)
			}
			web.answer("tools/call", id)
		})
		r := transporttest.ToolCall
		var seen []float64
		r.Track, r.Progress = true, func(p mcpvisor.Progress) { seen = append(seen, p.Progress) }
		_, err := s.Request(transporttest.Context(t), r)
		require.NoError(t, err)
		require.Equal(t, []float64{1, 2, 3}, seen)
	})
	t.Run("cancellation", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
			w.WriteHeader(http.StatusAccepted)
			w.(http.Flusher).Flush()
			cancel()
		})
		notified := make(chan struct{})
		web.handle("notifications/cancelled", func(http.ResponseWriter, *http.Request, json.RawMessage) { close(notified) })
		_, err := s.Request(ctx, transporttest.ToolCall)
		require.ErrorIs(t, err, context.Canceled)
		transporttest.RequireClosed(t, notified, "the server got no cancellation")
	})
	t.Run("ping of the server", func(t *testing.T) {
		pong := make(chan struct{})
		web.handle("", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			w.WriteHeader(http.StatusAccepted)
			if string(id) == `"beat"` {
				close(pong)
			}
		})
		web.send(`{"jsonrpc":"2.0","id":"beat","method":"ping"}`)
		transporttest.RequireClosed(t, pong, "the ping is not answered")
	})
}

// A POST that the server never accepts delays neither its answer nor the release.
func TestSSE_releaseWithOpenPOSTs(t *testing.T) {
	web := newSSEServer(t)
	s := openSession(t, sseSpec(web))
	web.handle("tools/call", func(_ http.ResponseWriter, r *http.Request, id json.RawMessage) {
		web.answer("tools/call", id)
		select {
		case <-r.Context().Done():
		case <-web.quit:
		}
	})
	for range 10 {
		requireServing(t, s)
	}
	s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested, Message: "enough"})
	select {
	case <-s.Released():
	case <-time.After(drainTimeout / 2):
		require.FailNow(t, "the release waits for POSTs that are not accepted")
	}
}

// Tokens are obtained and renewed for the stream and for POSTs.
func TestSSE_auth(t *testing.T) {
	web := newSSEServer(t)
	web.endpoint = "/mcp?sessionId=" + sseSecret
	a := oauthtest.NewServer(web.URL)
	t.Cleanup(a.Close)
	for _, inSpec := range []bool{true, false} {
		spec := authSpec(a, oauth.Config{FetchAuthorizationCode: approveAtOnce})
		spec.HTTP.SSE = inSpec
		s := openSession(t, spec)
		requireServing(t, s)
		a.Revoke(false, false)
		requireServing(t, s)
	}
}

// Two answers in one batch go to two callers. A caller that appends to its result does not
// change the other one.
func TestSSE_batchResultsSeparate(t *testing.T) {
	c := &sseConn{exchanger: new(exchanger), waiting: make(map[int64]*sseRequest)}
	first, second := c.addRequest(1, nil), c.addRequest(2, nil)
	long := `"` + strings.Repeat("b", 100) + `"`
	c.receiveEvent(httpbody.Event{Data: []byte(`[{"id":1,"result":"a"},{"id":2,"result":` + long + `}]`)})
	a, b := <-first.answer, <-second.answer
	_ = append(a.reply.result, strings.Repeat("x", 50)...)
	require.Equal(t, long, string(b.reply.result))
}

// An error without an id does not fail a call if the error may be about another message of
// the client. A call that times out quotes the error.
func TestSSE_errorWithoutID(t *testing.T) {
	for name, row := range map[string]struct {
		code   string
		notify bool // a notification is sent after the call
	}{
		"unknown method":                   {"-32601", false},
		"unknown method, notification":     {"-32601", true},
		"invalid request of notification":  {"-32600", true},
		"invalid params of a notification": {"-32602", true},
	} {
		t.Run(name, func(t *testing.T) {
			web := newSSEServer(t)
			s := openSession(t, sseSpec(web))
			called := make(chan json.RawMessage, 1)
			web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
				w.WriteHeader(http.StatusAccepted)
				called <- id
			})
			complain := func() {
				web.send(`{"jsonrpc":"2.0","id":null,"error":{"code":%s,"message":"no such thing, %s"}}`, row.code, sseSecret)
			}
			web.handle("notifications/test", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
				w.WriteHeader(http.StatusAccepted)
				complain()
			})
			provoke := func() {
				if row.notify {
					s.exchanger.notify([]byte(`{"jsonrpc":"2.0","method":"notifications/test"}`))
				} else {
					complain()
				}
			}
			done := make(chan error, 1)
			provokeAndWait := func(unmatched uint64) {
				provoke()
				require.Eventually(t, func() bool { return s.receiver.discarded.Unmatched.Load() == unmatched || len(done) == 1 }, transporttest.Patience, time.Millisecond)
			}
			call := func() json.RawMessage {
				r := transporttest.ToolCall
				r.Timeout = transporttest.Patience
				go func() {
					_, err := s.Request(t.Context(), r)
					done <- err
				}()
				return <-called
			}
			id := call()
			provokeAndWait(1)
			web.answer("tools/call", id)
			require.NoError(t, <-done)
			call()
			provokeAndWait(2)
			s.exchanger.table.expireCalls()
			err := <-done
			require.ErrorIs(t, err, mcpvisor.ErrTimeout)
			require.ErrorContains(t, err, "an error that names no request: no such thing, ***")
		})
	}
}

// expireCalls ends the requests on the call channel as their deadline does.
func (t *exchangeTable) expireCalls() {
	t.requests.Mu.Lock()
	var calls []*jsonrpc.Entry
	for b := range t.requests.Open.All() {
		if b.ID > 0 {
			calls = append(calls, b)
		}
	}
	t.requests.Mu.Unlock()
	for _, b := range calls {
		b.Owner.(*exchange).end(context.DeadlineExceeded, jsonrpc.ErrOverdue)
	}
}

// A POST may end after its request was answered on the stream, and answer it again. The
// exchange then ends, and the memory of that answer is released.
func TestSSE_POSTAnswersAfterStream(t *testing.T) {
	web := newSSEServer(t)
	returned := make(chan struct{})
	web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		web.answer("tools/call", id)
		<-returned
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(id)+`,"result":`+transporttest.Filler(2<<20)+`}`)
	})
	s := openSession(t, sseSpec(web))
	onlyStream := func() bool { return s.exchanger.table.size() == 1 && s.exchanger.table.buffer.Used() == 0 }
	require.Eventually(t, onlyStream, transporttest.Patience, transporttest.TimeStep, "the POSTs of the handshake end")
	_, err := s.Request(t.Context(), transporttest.ToolCall)
	require.NoError(t, err)
	require.Equal(t, 2, s.exchanger.table.size(), "the POST continues")
	close(returned)
	require.Eventually(t, onlyStream, transporttest.Patience, transporttest.TimeStep)
	require.Zero(t, s.exchanger.draining.Load())
}
