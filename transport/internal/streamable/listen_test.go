package streamable

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// replyEvents makes a handler that sends text as event stream, and ends the stream.
func replyEvents(text string) handler {
	return func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) { startEvents(w)("%s", text) }
}

// replyRetryLater makes a handler that replies with an error status, and a Retry-After
// header unless retryAfter is empty.
func replyRetryLater(code int, retryAfter string) handler {
	return func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(code)
	}
}

// The standalone stream is reopened after a wait. The server may set that wait. The wait
// grows while no message arrives, unless the server sets it, and is short again after a message. The stream is resumed
// after the last event; a gap is reported if that is not possible.
func TestStandaloneStream_reopenDelay(t *testing.T) {
	const event = `data: {"jsonrpc":"2.0","method":"notifications/of/our/own"}` + "\n\n"
	const eventWithID = "id: e1\n" + event
	rows := map[string]struct {
		replies []handler // the stream that follows them stays open
		waits   []time.Duration
		ids     []string // of the requests after the first
		gaps    int
	}{
		"stays open":                    {nil, nil, nil, 0},
		"an event arrived":              {[]handler{replyEvents(event), replyEvents(event), replyEvents(event)}, []time.Duration{reopenDelay, reopenDelay, reopenDelay}, []string{"", "", ""}, 3},
		"no event arrived":              {[]handler{replyEvents(""), replyEvents(""), replyEvents("")}, []time.Duration{reopenDelay, time.Second, 2 * time.Second}, []string{"", "", ""}, 3},
		"an event arrived after none":   {[]handler{replyEvents(""), replyEvents(event)}, []time.Duration{reopenDelay, reopenDelay}, []string{"", ""}, 2},
		"the server sets the wait once": {[]handler{replyEvents("retry: 3000\n" + event), replyEvents(event)}, []time.Duration{3 * time.Second, reopenDelay}, []string{"", ""}, 2},
		"refused":                       {[]handler{replyRetryLater(503, ""), replyRetryLater(500, ""), replyRetryLater(429, "")}, []time.Duration{firstRetryDelay, 2 * firstRetryDelay, 4 * firstRetryDelay}, []string{"", "", ""}, 1},
		"refused with Retry-After":      {[]handler{replyRetryLater(503, "7")}, []time.Duration{7 * time.Second}, []string{""}, 1},
		"only a wait of zero and ids":   {[]handler{replyEvents("id: a\nretry: 0\n\n"), replyEvents("id: b\nretry: 0\n\n"), replyEvents("id: c\nretry: 0\n\n"), replyEvents("id: d\nretry: 0\n\n")}, []time.Duration{reopenDelay, time.Second, 2 * time.Second, 4 * time.Second}, []string{"a", "b", "c", "d"}, 0},
		"the shortest wait, and an id":  {[]handler{replyEvents("id: a\nretry: 1\n\n"), replyEvents("id: b\nretry: 1\n\n"), replyEvents("id: c\nretry: 1\n\n")}, []time.Duration{reopenDelay, time.Second, 2 * time.Second}, []string{"a", "b", "c"}, 0},
		"events without a message":      {[]handler{replyEvents("data: {}\n\n"), replyEvents("event: beat\ndata: 1\n\n"), replyEvents("data: x\n\n")}, []time.Duration{reopenDelay, time.Second, 2 * time.Second}, []string{"", "", ""}, 3},
		"a longer wait, and an id":      {[]handler{replyEvents("id: a\nretry: 3000\n\n"), replyEvents("id: b\nretry: 3000\n\n"), replyEvents("id: c\nretry: 3000\n\n")}, []time.Duration{3 * time.Second, 3 * time.Second, 3 * time.Second}, []string{"a", "b", "c"}, 0},
		"a message, and short waits":    {[]handler{replyEvents("retry: 1\n" + event), replyEvents("retry: 1\n" + event)}, []time.Duration{reopenDelay, reopenDelay}, []string{"", ""}, 2},
		"refused for the broken stream": {[]handler{replyEvents(eventWithID), replyRetryLater(409, ""), replyRetryLater(408, ""), replyRetryLater(425, "")}, []time.Duration{reopenDelay, time.Second, 2 * time.Second, 4 * time.Second}, []string{"e1", "e1", "e1", "e1"}, 0},
		"refused, and the body stalls":  {[]handler{replyEvents(eventWithID), stallBody(503, "")}, []time.Duration{reopenDelay, endpoint.BodyTimeout + time.Second}, []string{"e1", "e1"}, 0},
		"the server forgot the event":   {[]handler{replyEvents(eventWithID), replyRetryLater(400, "")}, []time.Duration{reopenDelay, time.Second}, []string{"e1", ""}, 1},
		"starts over after an empty id": {[]handler{replyEvents(eventWithID), replyEvents("id:\n\n"), replyEvents("")}, []time.Duration{reopenDelay, time.Second, 2 * time.Second}, []string{"e1", "", ""}, 2},
		"resumed after the last event":  {[]handler{replyEvents(eventWithID), replyEvents(event), replyEvents("id: e2\n\n")}, []time.Duration{reopenDelay, reopenDelay, time.Second}, []string{"e1", "e1", "e2"}, 0},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				web := newMemoryTransport(t)
				requested := make(chan time.Time, 16)
				n := 0 // one stream at a time
				web.handle("GET", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
					requested <- time.Now()
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
				last := <-requested
				for i, want := range row.waits {
					now := <-requested
					require.InDelta(t, want+want/8, now.Sub(last), float64(want/8+1), "wait %d", i+1)
					last = now
				}
				time.Sleep(time.Hour)
				require.Empty(t, requested, "a stream was requested while one was open")
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

// A stream that the server does not open again is reported once: as a gap and a warning if
// one has been open, and not otherwise.
func TestStandaloneStream_notOpenedAgain(t *testing.T) {
	const event = "data: {}\n\n"
	rows := map[string]struct {
		replies []handler // the last one for good
		gaps    int
	}{
		"never offered":           {[]handler{replyRetryLater(405, "")}, 0},
		"conflict from the start": {[]handler{replyRetryLater(409, "")}, 0},
		"no longer offered":       {[]handler{replyEvents(event), replyRetryLater(405, "")}, 1},
		"no longer authorized":    {[]handler{replyEvents(event), replyRetryLater(401, "")}, 1},
		"rejected without an id":  {[]handler{replyEvents("id: e1\n" + event), replyRetryLater(400, ""), replyRetryLater(400, "")}, 1},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				web := newMemoryTransport(t)
				n := 0 // one stream at a time
				web.handle("GET", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
					n++
					row.replies[min(n, len(row.replies))-1](w, r, id)
				})
				log := new(testutil.LockedBuffer)
				s := NewDialer(web.spec().WithDefaults(), transport.Options{ClientInfo: transporttest.ClientInfo, Logger: zerolog.New(log).Level(zerolog.WarnLevel)}).NewSession().(*session)
				transporttest.ReleaseAtEnd(t, s)
				var gaps atomic.Int32
				s.OnNotice(func(n transport.Notice) {
					if n.Kind == transport.Gap {
						gaps.Add(1)
					}
				})
				require.NoError(t, s.Open(transporttest.Context(t)))
				time.Sleep(time.Hour)
				require.Len(t, web.requests("GET"), len(row.replies))
				require.EqualValues(t, row.gaps, gaps.Load())
				require.Equal(t, row.gaps, strings.Count(log.String(), "does not open its event stream again"), log.String())
				requireServing(t, s)
				synctest.Wait() // the body is closed after its answer
				require.Empty(t, web.unclosed())
			})
		})
	}
}

// If the server keeps no session, a 404 after a stream was open ends the stream and not the
// session.
func TestStandaloneStream_endsWithoutSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
		s := openSession(t, web.spec())
		time.Sleep(time.Hour)
		require.Len(t, web.requests("GET"), 2)
		requireServing(t, s)
		synctest.Wait() // the body is closed after its answer
		require.Empty(t, web.unclosed())
	})
}

// The response body of an exchange is closed after the exchange, however that ended.
func TestExchange_bodiesClosed(t *testing.T) {
	result := func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) { writeResult(w, id, helloResult) }
	send := func(w http.ResponseWriter, id json.RawMessage) {
		startEvents(w)("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, helloResult)
	}
	rows := map[string]map[string]handler{
		"answered":                       {"tools/call": result},
		"answered on a stream that ends": {"tools/call": func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) { send(w, id) }},
		"answered on a stream that continues": {"tools/call": func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			send(w, id)
			<-r.Context().Done()
		}},
		"answered on a stream without end": {"tools/call": func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			send(w, id)
			for r.Context().Err() == nil {
				time.Sleep(drainTimeout / 10)
				_, _ = w.Write([]byte(":\n"))
			}
		}},
		"refused":       {"tools/call": replyStatus(500, "text/plain", "no")},
		"a web page":    {"tools/call": replyStatus(200, "text/html", "<html>")},
		"a long answer": {"tools/call": replyStatus(200, "application/json", string(make([]byte, 1<<16)))},
		"redirected within the origin": {"tools/call": func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			if r.URL.Path != "/there" {
				http.Redirect(w, r, "/there", http.StatusPermanentRedirect)
				return
			}
			result(w, r, id)
		}},
		"redirected to another origin": {"tools/call": func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			http.Redirect(w, r, "https://elsewhere.invalid/", http.StatusPermanentRedirect)
		}},
		"a stream that ends early":             {"tools/call": replyEvents("data: {}\n\n")},
		"a stream whose resumption is refused": {"tools/call": replyEvents("id: a1\n\n"), "GET": replyRetryLater(405, "")},
		"a stream that is never resumed":       {"tools/call": replyEvents("id: a1\n\n"), "GET": replyRetryLater(503, "")},
		"a stream resumed without events":      {"tools/call": replyEvents("id: a1\n\n"), "GET": replyEvents("")},
		"timed out":                            {"tools/call": func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) { <-r.Context().Done() }},
	}
	for name, replies := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				web := newMemoryTransport(t)
				spec := web.spec()
				spec.Limits.MaxMessageBytes = 4096
				s := openSession(t, spec)
				for what, reply := range replies {
					web.handle(what, reply)
				}
				call := transporttest.ToolCall
				call.Timeout = time.Minute
				_, _ = s.Request(t.Context(), call)
				synctest.Wait()
				if name == "answered on a stream that ends" {
					require.Empty(t, web.unclosed(), "the body is closed at once")
				}
				time.Sleep(drainTimeout + time.Millisecond)
				require.Empty(t, web.unclosed())
				require.Zero(t, s.exchanger.table.size())
				require.Nil(t, s.Cause())
				time.Sleep(drainTimeout) // so that the handlers of the server return
			})
		})
	}
}

// "The client MUST include the MCP-Protocol-Version HTTP header on all subsequent requests"
// (MCP 2025-06-18, Streamable HTTP).
func TestStandaloneStream_version(t *testing.T) {
	web := newHTTPServer(t)
	openSession(t, specFor(web.URL))
	streams := web.requests("GET")
	require.NotEmpty(t, streams)
	for _, r := range streams {
		require.Equal(t, "2025-11-25", r.header.Get("Mcp-Protocol-Version"))
	}
}
