package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

const helloResult = `{"content":[{"type":"text","text":"hello"}]}`

// Many servers end the stream a moment after the answer. The call does not wait for that
// end, and the connection is reused nevertheless.
func TestStreamAnswer_connectionReused(t *testing.T) {
	web := newHTTPServer(t)
	finish := make(chan struct{})
	web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
		startEvents(w)("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, helloResult)
		select {
		case <-finish:
		case <-r.Context().Done():
		}
	})
	s := openSession(t, specFor(web.URL))
	kept := make(chan error, 1)
	ctx, cancel := context.WithCancel(httptrace.WithClientTrace(transporttest.Context(t), &httptrace.ClientTrace{
		PutIdleConn: func(err error) { kept <- err },
	}))
	_, err := s.Request(ctx, transporttest.ToolCall)
	require.NoError(t, err)
	cancel()
	close(finish)
	select {
	case err := <-kept:
		require.NoError(t, err)
	case <-transporttest.Context(t).Done():
		require.FailNow(t, "the connection is not reused")
	}
}

// An error without an id on the event stream of a call fails the call, unless the answer
// follows. It says nothing about what the tool does.
func TestStreamAnswer_errorWithoutID(t *testing.T) {
	const parseError = `data: {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error, ` + sseSecret + `"}}` + "\n\n"
	for name, row := range map[string]struct {
		events  string
		ends    bool // the stream ends after the events
		succeed bool
	}{
		"open":     {events: parseError},
		"ended":    {events: parseError, ends: true},
		"answered": {events: parseError + parseError + "data: {\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":" + helloResult + "}\n\n", succeed: true},
	} {
		t.Run(name, func(t *testing.T) {
			web := newHTTPServer(t)
			web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
				startEvents(w)("%s", strings.ReplaceAll(row.events, "$id", string(id)))
				if !row.ends {
					web.hang(r)
				}
			})
			spec := specFor(web.URL)
			spec.HTTP.Headers = map[string]string{"X-Key": sseSecret}
			s := openSession(t, spec)
			_, err := s.Request(transporttest.Context(t), transporttest.ToolCall)
			if row.succeed {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, mcpvisor.ErrRPC)
			require.ErrorContains(t, err, "Parse error, ***")
			e := testutil.AsError[*mcpvisor.Error](t, err)
			require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
		})
	}
}

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
		testutil.RunInBubble(t, name, func(t *testing.T) {
			web, spec, requested := newResumingServer(t, row.first, row.again)
			session := openSession(t, spec)
			got, err := session.Request(t.Context(), transporttest.ToolCall)
			require.NoError(t, err)
			require.JSONEq(t, helloResult, string(got))
			for i, want := range row.waits {
				require.InDelta(t, want+want/8, (*requested)[i+1].Sub((*requested)[i]), float64(want/8+1), "wait %d", i+1)
			}
			require.Len(t, web.requests("tools/call"), 1, "the call was sent twice")
			for _, r := range web.requests("GET") {
				require.Equal(t, "session-1", r.header.Get("Mcp-Session-Id"))
			}
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
		testutil.RunInBubble(t, name, func(t *testing.T) {
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
			e := testutil.AsError[*mcpvisor.Error](t, err)
			require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome, e.Error())
			require.Equal(t, row.tries, tries)
			require.Equal(t, row.crashed, s.Cause() != nil)
			require.Len(t, web.requests("tools/call"), 1, "the call was sent twice")
		})
	}
}

// A stream is resumed only if its events have ids, and only before MCP 2026-07-28. An empty id
// resets the last event id (HTML standard, server-sent events).
func TestStreamAnswer_modernNotResumed(t *testing.T) {
	for first, modern := range map[string]bool{"id: a\ndata:\n\n": true, "data:\n\n": false, "id: a\ndata:\n\nid:\ndata:\n\n": false} {
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
		testutil.RunInBubble(t, name, func(t *testing.T) {
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
		testutil.RunInBubble(t, name, func(t *testing.T) {
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
	}
}

// A 404 after a stream was open ends the session, or only the stream if the server keeps no session.
func TestStandaloneStream_notFoundAgain(t *testing.T) {
	for id, ends := range map[string]bool{"session-1": true, "": false} {
		testutil.RunInBubble(t, "id "+id, func(t *testing.T) {
			web := newMemoryTransport(t)
			web.session = id
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
			if ends {
				require.NotNil(t, s.Cause(), "the loss is not detected")
				require.Contains(t, s.Cause().Message, "forgot the session")
				return
			}
			requireServing(t, s)
			synctest.Wait() // the body is closed after its answer
			require.Empty(t, web.unclosed())
		})
	}
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
		testutil.RunInBubble(t, name, func(t *testing.T) {
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
	}
}
