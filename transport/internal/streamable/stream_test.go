package streamable

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

const helloResult = `{"content":[{"type":"text","text":"hello"}]}`

func TestStreamAnswer(t *testing.T) {
	rows := map[string]func(send func(string, ...any), id json.RawMessage){
		"plain": func(send func(string, ...any), id json.RawMessage) {
			send("event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, helloResult)
		},
		"last blank line missing": func(send func(string, ...any), id json.RawMessage) {
			send("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}", id, helloResult)
		},
		"CR LF, BOM, comments, several data lines": func(send func(string, ...any), id json.RawMessage) {
			send("\ufeff: welcome\r\n\r\ndata: {\"jsonrpc\":\"2.0\",\r\ndata:\"id\":%s,\r\ndata:\"result\":%s}\r\n\r\n", id, helloResult)
		},
		"other events before": func(send func(string, ...any), id json.RawMessage) {
			send("data: not json\n\n")
			send("event: ping\ndata: 12:00\n\n")
			send("data: {\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{}}\n\n")
			send("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/of/our/own\",\"params\":{}}\n\n")
			send("data: {\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":%q}\n\n", strings.Repeat("x", 8192))
			send("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, helloResult)
		},
	}
	for name, script := range rows {
		t.Run(name, func(t *testing.T) {
			web := newHTTPServer(t)
			web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
				script(startEvents(w), id)
			})
			spec := specFor(web.URL)
			spec.Limits.MaxMessageBytes = 4096
			s := openSession(t, spec)
			requireServing(t, s)
			if name == "other events before" {
				require.Equal(t, mcpvisor.Discarded{Malformed: 1, Oversize: 1, Unmatched: 1}, s.Info().Discarded)
			}
		})
	}
}

func TestStreamAnswer_oversize(t *testing.T) {
	web := newHTTPServer(t)
	web.handle("tools/call", firstTime(func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
		startEvents(w)("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%q}\n\n", id, strings.Repeat("x", 8192))
		web.hang(r)
	}))
	spec := specFor(web.URL)
	spec.Limits.MaxMessageBytes = 4096
	s := openSession(t, spec)
	e := requireCallFails(t, s)
	require.Equal(t, mcpvisor.KindProtocol, e.Kind)
	require.Equal(t, mcpvisor.OutcomeAnswered, e.Outcome)
	require.ErrorContains(t, e, "raise Limits.MaxMessageBytes")
	requireServing(t, s)
}

func TestStreamAnswer_cutWithoutIDs(t *testing.T) {
	web := newHTTPServer(t)
	web.handle("tools/call", firstTime(func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		startEvents(w)(": hold on\n\n")
	}))
	s := openSession(t, specFor(web.URL))
	e := requireCallFails(t, s)
	require.Equal(t, mcpvisor.KindProtocol, e.Kind, e.Error())
	require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
	require.ErrorContains(t, e, "ended without the answer")
	requireServing(t, s)
}

func TestStreamAnswer_resumed(t *testing.T) {
	web := newHTTPServer(t)
	var call atomic.Value
	web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		call.Store(string(id))
		startEvents(w)("id: a1\nretry: 10\ndata:\n\n")
	})
	var tries atomic.Int32
	web.handle("GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		switch r.Header.Get("Last-Event-ID") {
		case "":
			w.WriteHeader(http.StatusMethodNotAllowed)
		case "a1":
			if tries.Add(1) == 1 { // an error that passes
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			startEvents(w)("id: a2\nretry: 10\ndata:\n\n")
		case "a2":
			startEvents(w)("id: a3\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", call.Load(), helloResult)
		}
	})
	s := openSession(t, specFor(web.URL))
	requireServing(t, s)
	require.EqualValues(t, 2, tries.Load())
	require.Len(t, web.requests("tools/call"), 1, "the call was sent twice")
	for _, r := range web.requests("GET")[1:] {
		require.Equal(t, "session-1", r.header.Get("Mcp-Session-Id"))
	}
}

func TestStreamAnswer_notResumed(t *testing.T) {
	web := newHTTPServer(t)
	web.handle("tools/call", firstTime(func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		startEvents(w)("id: a1\nretry: 10\ndata:\n\n")
	}))
	s := openSession(t, specFor(web.URL))
	e := requireCallFails(t, s)
	require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
	require.ErrorContains(t, e, "could not be resumed: HTTP 405")
	requireServing(t, s)
}

// The standalone stream ends, is refused with several statuses, and is resumed. The session
// and its calls are not affected.
func TestStandaloneStream_reconnects(t *testing.T) {
	web := newHTTPServer(t)
	var tries atomic.Int32
	resumed := make(chan string, 1)
	web.handle("GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		switch tries.Add(1) {
		case 1:
			startEvents(w)("id: e1\nretry: 10\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/of/our/own\",\"params\":{\"level\":\"info\",\"data\":1}}\n\n")
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 3:
			resumed <- r.Header.Get("Last-Event-ID")
			startEvents(w)("retry: 10\ndata: broken {\n\n")
		default:
			w.WriteHeader(http.StatusMethodNotAllowed)
		}
	})
	s := openSession(t, specFor(web.URL))
	select {
	case id := <-resumed:
		require.Equal(t, "e1", id)
	case <-transporttest.Context(t).Done():
		require.FailNow(t, "the stream was not reopened")
	}
	require.Eventually(t, func() bool { return tries.Load() == 4 }, transporttest.Patience, transporttest.TimeStep)
	requireServing(t, s)
	require.EqualValues(t, 1, s.Info().Discarded.Malformed)
}

// A 404 to the request for the standalone stream ends the session, if a stream was open
// before.
func TestStandaloneStream_sessionLost(t *testing.T) {
	web := newHTTPServer(t)
	var tries atomic.Int32
	opened := make(chan struct{})
	web.handle("GET", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		if tries.Add(1) > 1 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		send := startEvents(w)
		<-opened
		send("retry: 10\ndata:\n\n")
	})
	s := openSession(t, specFor(web.URL))
	close(opened)
	transporttest.RequireClosed(t, s.Dead(), "the loss is not detected")
	require.Contains(t, s.Cause().Message, "forgot the session")
}

func TestStreamAnswer_otherMessages(t *testing.T) {
	web := newHTTPServer(t)
	web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		send := startEvents(w)
		send("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":{\"uri\":\"file:///a\"}}\n\n")
		send("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, helloResult)
	})
	s := newTestDialer(specFor(web.URL)).NewSession().(*session)
	transporttest.ReleaseAtEnd(t, s)
	var seen []string
	s.OnNotice(func(n transport.Notice) { seen = append(seen, n.URI) })
	require.NoError(t, s.Open(transporttest.Context(t)))
	requireServing(t, s)
	require.Equal(t, []string{"file:///a"}, seen)
}

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
			var e *mcpvisor.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
		})
	}
}
