package streamable

import (
	"encoding/json"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// replyEvents is a stream of that text, which ends after it.
func replyEvents(text string) handler {
	return func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) { startEvents(w)("%s", text) }
}

func replyRetryLater(code int, retryAfter string) handler {
	return func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(code)
	}
}

// The standalone stream is opened again after a wait. The server may name that wait;
// it grows while nothing comes, and is short again after an event. The stream
// resumes where it ended; where it cannot, a gap is reported.
func TestStandaloneStream_pace(t *testing.T) {
	const word, named = "data: {}\n\n", "id: e1\ndata: {}\n\n"
	rows := map[string]struct {
		replies []handler // the stream that follows them stays open
		waits   []time.Duration
		ids     []string // of the requests after the first
		gaps    int
	}{
		"stays open":                      {nil, nil, nil, 0},
		"something came":                  {[]handler{replyEvents(word), replyEvents(word), replyEvents(word)}, []time.Duration{reopenDelay, reopenDelay, reopenDelay}, []string{"", "", ""}, 3},
		"nothing came":                    {[]handler{replyEvents(""), replyEvents(""), replyEvents("")}, []time.Duration{reopenDelay, time.Second, 2 * time.Second}, []string{"", "", ""}, 3},
		"something came after nothing":    {[]handler{replyEvents(""), replyEvents(word)}, []time.Duration{reopenDelay, reopenDelay}, []string{"", ""}, 2},
		"the server's own pace, for once": {[]handler{replyEvents("retry: 3000\n" + word), replyEvents(word)}, []time.Duration{3 * time.Second, reopenDelay}, []string{"", ""}, 2},
		"refused":                         {[]handler{replyRetryLater(503, ""), replyRetryLater(500, ""), replyRetryLater(429, "")}, []time.Duration{firstRetryDelay, 2 * firstRetryDelay, 4 * firstRetryDelay}, []string{"", "", ""}, 1},
		"refused, with a time":            {[]handler{replyRetryLater(503, "7")}, []time.Duration{7 * time.Second}, []string{""}, 1},
		"starts over after an empty id":   {[]handler{replyEvents(named), replyEvents("id:\n\n"), replyEvents("")}, []time.Duration{reopenDelay, reopenDelay, time.Second}, []string{"e1", "", ""}, 2},
		"goes on where it ended":          {[]handler{replyEvents(named), replyEvents(word), replyEvents("id: e2\n\n")}, []time.Duration{reopenDelay, reopenDelay, reopenDelay}, []string{"e1", "e1", "e2"}, 0},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			transporttest.InBubble(t, func(t *testing.T) {
				web := newMemoryTransport(t)
				asked := make(chan time.Time, 16)
				n := 0 // one stream at a time
				web.handle("GET", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
					asked <- time.Now()
					if n++; n <= len(row.replies) {
						row.replies[n-1](w, r, id)
						return
					}
					startEvents(w)
					web.hang(r)
				})
				s := newTestDialer(web.spec()).NewSession().(*session)
				transporttest.ReleaseAtEnd(t, s)
				gaps := make(chan transport.Notice, 16)
				s.OnNotice(func(n transport.Notice) {
					if n.Kind == transport.Gap {
						gaps <- n
					}
				})
				require.NoError(t, s.Open(transporttest.Context(t)))
				last := <-asked
				for i, want := range row.waits {
					now := <-asked
					require.InDelta(t, want+want/8, now.Sub(last), float64(want/8+1), "wait %d", i+1)
					last = now
				}
				time.Sleep(time.Hour)
				require.Empty(t, asked, "the stream was asked for while there was one")
				require.Len(t, gaps, row.gaps)
				for i, r := range web.requests("GET")[1:] {
					require.Equal(t, row.ids[i], r.header.Get("Last-Event-ID"))
				}
				require.Equal(t, []string{"GET /mcp"}, web.unclosed())
				require.Nil(t, s.Cause())
			})
		})
	}
}

// Without a session there is none to be lost: a 404 where there was a stream
// is the end of the stream.
func TestStandaloneStream_endsWithoutSession(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		web := newMemoryTransport(t)
		web.session = ""
		n := 0
		web.handle("GET", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			if n++; n == 1 {
				replyEvents("data: {}\n\n")(w, r, id)
				return
			}
			w.WriteHeader(http.StatusNotFound)
		})
		s := openInMemory(t, web.spec())
		time.Sleep(time.Hour)
		require.Len(t, web.requests("GET"), 2)
		requireServing(t, s)
		synctest.Wait() // a body is closed behind its answer
		require.Empty(t, web.unclosed())
	})
}

// An exchange that has ended holds no connection, however it ended.
func TestExchange_bodiesClosed(t *testing.T) {
	result := func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) { writeResult(w, id, helloResult) }
	say := func(w http.ResponseWriter, id json.RawMessage) {
		startEvents(w)("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, helloResult)
	}
	rows := map[string]map[string]handler{
		"answered":                       {"tools/call": result},
		"answered on a stream that ends": {"tools/call": func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) { say(w, id) }},
		"answered on a stream that goes on": {"tools/call": func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			say(w, id)
			<-r.Context().Done()
		}},
		"answered on a stream without end": {"tools/call": func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			say(w, id)
			for r.Context().Err() == nil {
				time.Sleep(drainTimeout / 10)
				_, _ = w.Write([]byte(":\n"))
			}
		}},
		"refused":       {"tools/call": replyStatus(500, "text/plain", "no")},
		"a page":        {"tools/call": replyStatus(200, "text/html", "<html>")},
		"a long answer": {"tools/call": replyStatus(200, "application/json", string(make([]byte, 1<<16)))},
		"moved": {"tools/call": func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			if r.URL.Path != "/there" {
				http.Redirect(w, r, "/there", http.StatusPermanentRedirect)
				return
			}
			result(w, r, id)
		}},
		"moved away": {"tools/call": func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			http.Redirect(w, r, "https://elsewhere.invalid/", http.StatusPermanentRedirect)
		}},
		"a stream cut":      {"tools/call": replyEvents("data: {}\n\n")},
		"a stream refused":  {"tools/call": replyEvents("id: a1\n\n"), "GET": replyRetryLater(405, "")},
		"a stream no more":  {"tools/call": replyEvents("id: a1\n\n"), "GET": replyRetryLater(503, "")},
		"a stream resumed":  {"tools/call": replyEvents("id: a1\n\n"), "GET": replyEvents("")},
		"canceled, noticed": {"tools/call": func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) { <-r.Context().Done() }},
	}
	for name, replies := range rows {
		t.Run(name, func(t *testing.T) {
			transporttest.InBubble(t, func(t *testing.T) {
				web := newMemoryTransport(t)
				spec := web.spec()
				spec.Limits.MaxMessageBytes = 4096
				s := openInMemory(t, spec)
				for what, reply := range replies {
					web.handle(what, reply)
				}
				call := transporttest.ToolCall
				call.Timeout = time.Minute
				_, _ = s.Request(t.Context(), call)
				synctest.Wait()
				if name == "answered on a stream that ends" {
					require.Empty(t, web.unclosed(), "at once")
				}
				time.Sleep(drainTimeout + time.Millisecond)
				require.Empty(t, web.unclosed())
				s.exchanges.requests.Mu.Lock()
				left := len(s.exchanges.requests.Open)
				s.exchanges.requests.Mu.Unlock()
				require.Zero(t, left)
				require.Nil(t, s.Cause())
				time.Sleep(drainTimeout) // so that the server's side notices
			})
		})
	}
}

// The time of the last reception is that of the response header, and of every byte
// after it, not only of a complete answer.
func TestLastReceived(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		web := newMemoryTransport(t)
		web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			say := startEvents(w)
			time.Sleep(time.Second)
			say(":\n")
			<-r.Context().Done()
		})
		s := openInMemory(t, web.spec())
		time.Sleep(time.Minute)
		began := time.Now()
		call := transporttest.ToolCall
		call.Timeout = time.Minute
		failed := make(chan error, 1)
		go func() { _, err := s.Request(t.Context(), call); failed <- err }()
		time.Sleep(time.Second / 2)
		require.True(t, s.LastReceived().Equal(began), "the header")
		time.Sleep(10 * time.Second)
		require.True(t, s.LastReceived().Equal(began.Add(time.Second)), "a comment on the stream")
		require.ErrorIs(t, <-failed, mcpvisor.ErrTimeout)
	})
}

// TestStandaloneStream_version: "the client MUST include the MCP-Protocol-Version
// HTTP header on all subsequent requests" (MCP 2025-06-18, Streamable HTTP).
func TestStandaloneStream_version(t *testing.T) {
	web := newHTTPServer(t)
	openSession(t, specFor(web.URL))
	streams := web.requests("GET")
	require.NotEmpty(t, streams)
	for _, r := range streams {
		require.Equal(t, "2025-11-25", r.header.Get("Mcp-Protocol-Version"))
	}
}
