package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/stdio"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// An invalid reply fails only its own call.
func TestCall_invalidReply(t *testing.T) {
	rows := []struct {
		name    string
		reply   handler
		kind    mcpvisor.ErrorKind
		outcome mcpvisor.Outcome
		want    string
	}{
		{"401", replyStatus(401, "", ""), mcpvisor.KindAuthRequired, mcpvisor.OutcomeAnswered, "HTTP 401"},
		{"403", replyStatus(403, "text/plain", "no\x1b[31m way\nsecond line"), mcpvisor.KindAuthRequired, mcpvisor.OutcomeAnswered, "HTTP 403 Forbidden: no[31m way;"},
		{"400", replyStatus(400, "text/plain", "bad arguments"), mcpvisor.KindProtocol, mcpvisor.OutcomeAnswered, "bad arguments"},
		{"413", replyStatus(413, "", ""), mcpvisor.KindProtocol, mcpvisor.OutcomeAnswered, "smaller"},
		{"429", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(429)
		}, mcpvisor.KindUnavailable, mcpvisor.OutcomeAnswered, "retry in 7s"},
		{"503 with Retry-After", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(503)
		}, mcpvisor.KindUnavailable, mcpvisor.OutcomeAnswered, "retry in 7s"},
		{"503", replyStatus(503, "", ""), mcpvisor.KindProtocol, mcpvisor.OutcomeUnknown, "HTTP 503"},
		{"502 web page", replyStatus(502, "text/html", "<html>nginx</html>"), mcpvisor.KindProtocol, mcpvisor.OutcomeUnknown, "HTTP 502 Bad Gateway;"},
		{"504", replyStatus(504, "", ""), mcpvisor.KindProtocol, mcpvisor.OutcomeUnknown, "HTTP 504"},
		{"200 web page", replyStatus(200, "text/html", "<html>"), mcpvisor.KindProtocol, mcpvisor.OutcomeAnswered, "not an MCP endpoint"},
		{"empty 202", replyStatus(202, "", ""), mcpvisor.KindProtocol, mcpvisor.OutcomeUnknown, "did not answer"},
		{"empty 200", replyStatus(200, "application/json", ""), mcpvisor.KindProtocol, mcpvisor.OutcomeUnknown, "did not answer"},
		{"cut short", replyStatus(200, "application/json", `{"jsonrpc":"2.0","id":`), mcpvisor.KindProtocol, mcpvisor.OutcomeUnknown, "cut short"},
		{"broken off", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"jsonrpc":"2.0",`)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, mcpvisor.KindProtocol, mcpvisor.OutcomeUnknown, "in the middle of the answer"},
		{"hung up", func(http.ResponseWriter, *http.Request, json.RawMessage) { panic(http.ErrAbortHandler) },
			mcpvisor.KindProtocol, mcpvisor.OutcomeUnknown, "before the answer came"},
		{"answer to another", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
			writeResult(w, json.RawMessage("5"), `{}`)
		}, mcpvisor.KindProtocol, mcpvisor.OutcomeUnknown, "no answer to the request"},
		{"invalid result", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			writeResult(w, id, `{"a":tru}`)
		}, mcpvisor.KindProtocol, mcpvisor.OutcomeAnswered, "not valid JSON"},
		{"oversize", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			writeResult(w, id, `"`+strings.Repeat("x", 5000)+`"`)
		}, mcpvisor.KindProtocol, mcpvisor.OutcomeAnswered, "raise Limits.MaxMessageBytes"},
		{"oversize, length unknown", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			w.(http.Flusher).Flush()
			writeResult(w, id, `"`+strings.Repeat("x", 5000)+`"`)
		}, mcpvisor.KindProtocol, mcpvisor.OutcomeAnswered, "longer than 4096 bytes"},
		{"redirect to GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			http.Redirect(w, r, "/login?next=canary", http.StatusFound)
		}, mcpvisor.KindProtocol, mcpvisor.OutcomeAnswered, "/login; if that is the endpoint, put this URL into the configuration"},
		{"redirect elsewhere", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			http.Redirect(w, r, "http://other.invalid/mcp?canary", http.StatusTemporaryRedirect)
		}, mcpvisor.KindProtocol, mcpvisor.OutcomeAnswered, "redirects to http://other.invalid/mcp;"},
		{"error without id", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
			writeError(w, json.RawMessage("null"), -32603, "oops")
		}, mcpvisor.KindRPC, mcpvisor.OutcomeAnswered, "oops"},
		{"error with status", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			w.WriteHeader(500)
			fmt.Fprintf(w, `{"id":%s,"error":{"code":-32001,"message":"oops","data":{"n":1}}}`, id)
		}, mcpvisor.KindRPC, mcpvisor.OutcomeAnswered, "oops"},
		{"unknown method with 404", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			w.WriteHeader(404)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, id)
		}, mcpvisor.KindRPC, mcpvisor.OutcomeAnswered, "no such method"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			web := newHTTPServer(t)
			web.handle("tools/call", firstTime(row.reply))
			spec := specFor(web.URL)
			spec.Limits.MaxMessageBytes = 4096
			s := openSession(t, spec)
			e := requireCallFails(t, s)
			require.Equal(t, row.kind, e.Kind, e.Error())
			require.Equal(t, row.outcome, e.Outcome, e.Error())
			require.Contains(t, e.Error(), row.want)
			require.NotContains(t, e.Error(), "canary")
			require.NotContains(t, e.Error(), "<")
			require.Equal(t, strings.HasPrefix(row.name, "oversize"), s.Info().Discarded.Oversize > 0)
			requireServing(t, s)
		})
	}
}

// Unusual but unambiguous forms of an answer are accepted.
func TestCall_toleratedReply(t *testing.T) {
	rows := map[string]handler{
		"batch": func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `[{"jsonrpc":"2.0","method":"notifications/of/our/own","params":{}},{"jsonrpc":"2.0","id":%s,"result":{"a":"hello"}}]`, id)
		},
		"id as text": func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			writeResult(w, json.RawMessage(`"`+string(id)+`"`), `{"a":"hello"}`)
		},
		"no content type": func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			w.Header()["Content-Type"] = nil
			fmt.Fprintf(w, "\n"+`{"id":%s,"result":{"a":"hello"}}`, id)
		},
		"same-origin 307": func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			if r.URL.Path != "/mcp/" {
				http.Redirect(w, r, "/mcp/", http.StatusTemporaryRedirect)
				return
			}
			writeResult(w, id, `{"a":"hello"}`)
		},
	}
	for name, reply := range rows {
		t.Run(name, func(t *testing.T) {
			web := newHTTPServer(t)
			web.handle("tools/call", reply)
			requireServing(t, openSession(t, specFor(web.URL)))
		})
	}
}

func TestCall_canceled(t *testing.T) {
	web := newHTTPServer(t)
	received := make(chan string, 1)
	cancelledBody := make(chan string, 1)
	web.handle("tools/call", firstTime(func(_ http.ResponseWriter, r *http.Request, id json.RawMessage) {
		received <- string(id)
		web.hang(r)
	}))
	web.handle("notifications/cancelled", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		w.WriteHeader(http.StatusAccepted)
		last := web.requests("notifications/cancelled")
		cancelledBody <- last[len(last)-1].body
	})
	s := openSession(t, specFor(web.URL))
	ctx, cancel := context.WithCancelCause(context.Background())
	failed := make(chan error, 1)
	go func() {
		_, err := s.Request(ctx, transporttest.ToolCall)
		failed <- err
	}()
	id := <-received
	cancel(errors.New("not needed any more"))
	err := <-failed
	require.ErrorIs(t, err, mcpvisor.ErrCanceled)
	e := testutil.AsError[*mcpvisor.Error](t, err)
	require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
	notice := <-cancelledBody
	require.Contains(t, notice, `"requestId":`+id)
	require.Contains(t, notice, `"canceled"`)
	requireServing(t, s)

	done, cancelDone := context.WithCancel(context.Background())
	cancelDone()
	_, err = s.Request(done, transporttest.ToolCall)
	require.ErrorIs(t, err, mcpvisor.ErrCanceled)
	require.ErrorAs(t, err, &e)
	require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
}

func TestCall_headers(t *testing.T) {
	web := newHTTPServer(t)
	spec := specFor(web.URL)
	spec.HTTP.Headers = map[string]string{"authorization": "Bearer abc", "Host": "virtual.example", "accept": "text/html", "X-Tenant": "t1"}
	s := openSession(t, spec)
	requireServing(t, s)
	seen := web.requests("tools/call")[0]
	require.Equal(t, "application/json, text/event-stream", seen.header.Get("Accept"))
	require.Equal(t, "application/json", seen.header.Get("Content-Type"))
	require.Equal(t, "2025-11-25", seen.header.Get("Mcp-Protocol-Version"))
	require.Equal(t, "session-1", seen.header.Get("Mcp-Session-Id"))
	require.Empty(t, seen.header.Get("Mcp-Method"), "legacy requests have no Mcp-Method")
	require.Equal(t, "Bearer abc", seen.header.Get("Authorization"))
	require.Equal(t, "t1", seen.header.Get("X-Tenant"))
	require.Equal(t, "virtual.example", seen.host)
	for _, r := range web.requests("GET") {
		require.Equal(t, "Bearer abc", r.header.Get("Authorization"))
	}
}

func TestCall_modernHeaders(t *testing.T) {
	web := newHTTPServer(t)
	web.handle("server/discover", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		writeResult(w, id, `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete"}`)
	})
	s := openSession(t, specFor(web.URL))
	require.Equal(t, mcpvisor.EraModern, s.Info().Era)
	_, err := s.Request(transporttest.Context(t), transport.Request{Method: "tools/call", Target: "grüß", Params: json.RawMessage(`{"name":"grüß"}`)})
	require.NoError(t, err)
	seen := web.requests("tools/call")[0]
	require.Equal(t, "tools/call", seen.header.Get("Mcp-Method"))
	require.Equal(t, "=?base64?Z3LDvMOf?=", seen.header.Get("Mcp-Name"))
	require.Equal(t, "2026-07-28", seen.header.Get("Mcp-Protocol-Version"))
	require.Empty(t, seen.header.Get("Mcp-Session-Id"))
	require.Contains(t, seen.body, `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`)
	require.Contains(t, seen.body, `"name":"grüß"`)

	// The client cancels by closing the stream, without a notification.
	cancelledBody := make(chan struct{}, 1)
	web.handle("notifications/cancelled", func(http.ResponseWriter, *http.Request, json.RawMessage) { cancelledBody <- struct{}{} })
	received := make(chan struct{})
	left := make(chan struct{})
	web.handle("tools/call", func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		close(received)
		<-r.Context().Done()
		close(left)
	})
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error, 1)
	go func() { _, err := s.Request(ctx, transporttest.ToolCall); failed <- err }()
	<-received
	cancel()
	require.ErrorIs(t, <-failed, mcpvisor.ErrCanceled)
	transporttest.RequireClosed(t, left, "the stream is still open after the cancellation")
	require.Never(t, func() bool { return len(cancelledBody) > 0 }, 50*time.Millisecond, transporttest.TimeStep)
	require.Empty(t, web.requests("GET"))
}

// An error of an application's RoundTripper does not prove that nothing was sent, because
// such a RoundTripper need not report its connections.
func TestCall_hostRoundTripper(t *testing.T) {
	web := newHTTPServer(t)
	fail := make(chan struct{})
	spec := specFor(web.URL)
	own := &http.Transport{}
	t.Cleanup(own.CloseIdleConnections)
	spec.HTTP.Client = &http.Client{Timeout: time.Nanosecond, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		select {
		case <-fail:
			return nil, errors.New("something happened")
		default:
			return own.RoundTrip(r)
		}
	})}
	s := openSession(t, spec)
	requireServing(t, s)
	close(fail)
	e := requireCallFails(t, s)
	require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
}

// roundTripper is a function that implements http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// An answer counts although the caller's context or the session ended before callError
// was called.
func TestCallError_answerAfterCallerLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openSession(t, newMemoryTransport(t).spec())
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		canceled := s.exchanger.table.startRequest(ended, new(transporttest.ToolCall))
		defer canceled.finish()
		open := s.exchanger.table.startRequest(t.Context(), new(transporttest.ToolCall))
		defer open.finish()
		<-canceled.ctx.Done()
		answered := &endpoint.HTTPError{Message: "no", Kind: mcpvisor.KindRPC, Outcome: mcpvisor.OutcomeAnswered}
		e := testutil.AsError[*mcpvisor.Error](t, s.calls.callError(canceled, answered))
		require.Equal(t, mcpvisor.KindRPC, e.Kind)
		s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
		require.ErrorAs(t, s.calls.callError(open, answered), &e)
		require.Equal(t, mcpvisor.KindRPC, e.Kind)
	})
}

// A call of a session that was never opened fails as not sent.
func TestRequest_beforeOpen(t *testing.T) {
	s := newTestDialer(specFor("http://wireless.invalid/mcp")).NewSession()
	_, err := s.Request(t.Context(), transporttest.ToolCall)
	var e *mcpvisor.Error
	require.True(t, errors.As(err, &e))
	require.Equal(t, mcpvisor.KindUnavailable, e.Kind)
	require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
	s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
	transporttest.RequireClosed(t, s.Released(), "session is not released")
}

// User and password of the URL become an Authorization header of the Basic scheme. Headers
// of the spec do not replace headers of the protocol.
func TestHeaders_ofSpec(t *testing.T) {
	web := newHTTPServer(t)
	web.session = ""
	spec := specFor("http://us%20er:pass%2Fword@" + web.Listener.Addr().String())
	spec.HTTP.Headers = map[string]string{"Mcp-Session-Id": "mine", "last-event-id": "mine", "MCP-Protocol-Version": "mine"}
	s := openSession(t, spec)
	requireServing(t, s)
	for _, what := range []string{"server/discover", "initialize", "GET", "tools/call"} {
		h := web.requests(what)[0].header
		require.Equal(t, "Basic "+basicCredential("us er", "pass/word"), h.Get("Authorization"), what)
		for name, values := range h {
			require.NotContains(t, values, "mine", name)
		}
	}
}

// An answer in an encoding that no request has offered names the encoding. It is neither a broken
// connection nor invalid JSON, and the session is kept.
func TestCall_encodingNotOffered(t *testing.T) {
	for name, row := range map[string]struct {
		status         int
		kind, encoding string
		outcome        mcpvisor.Outcome
		says           string
	}{
		"brotli":       {200, "application/json", "br", mcpvisor.OutcomeUnknown, `Content-Encoding "br"`},
		"two":          {200, "application/json", "gzip, br", mcpvisor.OutcomeUnknown, `Content-Encoding "gzip, br"`},
		"event stream": {200, "text/event-stream", "zstd", mcpvisor.OutcomeUnknown, `Content-Encoding "zstd"`},
		"error status": {413, "text/plain", "deflate", mcpvisor.OutcomeAnswered, "HTTP 413 Request Entity Too Large"},
	} {
		t.Run(name, func(t *testing.T) {
			web := newHTTPServer(t)
			web.handle("notifications/initialized", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
				w.Header().Set("Content-Encoding", row.encoding) // of no content
				w.WriteHeader(http.StatusAccepted)
			})
			web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
				w.Header().Set("Content-Type", row.kind)
				w.Header().Set("Content-Encoding", row.encoding)
				w.WriteHeader(row.status)
				_, _ = w.Write([]byte("\x8b\x0f\x80 packed \x03"))
			})
			s := openSession(t, specFor(web.URL))
			e := requireCallFails(t, s)
			require.ErrorContains(t, e, row.says)
			require.NotContains(t, e.Error(), "packed")
			require.Equal(t, mcpvisor.KindProtocol, e.Kind)
			require.Equal(t, row.outcome, e.Outcome)
			require.NotContains(t, e.Error(), "broke")
			web.handle("tools/call", nil)
			requireServing(t, s)
		})
	}
}

func TestBatch_noAllocations(t *testing.T) {
	const items = 1 << 16
	batch := []byte("[" + strings.Repeat("1,", items-1) + "1]")
	nested := []byte("[" + strings.Repeat("[1],", items-1) + "[1]]")
	r := &receiver{exchanger: &exchanger{}}
	require.LessOrEqual(t, testing.AllocsPerRun(1, func() {
		_, found, httpErr := r.handleMessage(batch, 1, true)
		require.False(t, found)
		require.Nil(t, httpErr)
		_, _, _ = r.handleMessage(nested, 1, true)
	}), 10.0)
	require.EqualValues(t, 2*2*items, r.discarded.Malformed.Load())
}

// An error without an id answers a call only if it is the only message of the batch.
func TestBatch(t *testing.T) {
	const noID = `{"jsonrpc":"2.0","error":{"code":1,"message":"m"}}`
	for name, c := range map[string]struct {
		text          string
		result, error string
		discarded     uint64 // malformed and unmatched messages
	}{
		"answer":          {`[{"id":1,"result":"a"}]`, `"a"`, "", 0},
		"among others":    {` [ {"id":2,"result":"b"} , 7, {"id":1,"result":"a"} ] `, `"a"`, "", 2},
		"nested":          {`[[{"id":1,"result":"a"}]]`, "", "", 1},
		"noID":            {`[` + noID + `]`, "", `{"code":1,"message":"m"}`, 0},
		"noID and others": {`[` + noID + `,{"id":1,"result":"a"}]`, `"a"`, "", 1},
		"empty":           {`[]`, "", "", 0},
		"cut":             {`[{"id":1,"result":"a"}`, "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := &receiver{exchanger: &exchanger{}}
			got, found, httpErr := r.handleMessage([]byte(strings.TrimSpace(c.text)), 1, true)
			require.Nil(t, httpErr)
			require.Equal(t, c.result+c.error != "", found)
			require.Equal(t, c.result, string(got.result))
			require.Equal(t, c.error, string(got.errorMember))
			require.Equal(t, c.discarded, r.discarded.Malformed.Load()+r.discarded.Unmatched.Load())
		})
	}
}

// The largest possible Limits.MaxMessageBytes works over HTTP and over pipes.
func TestMaxMessageBytes_maxInt(t *testing.T) {
	web := newHTTPServer(t)
	spec := specFor(web.URL)
	spec.Limits.MaxMessageBytes = math.MaxInt
	requireServing(t, openSession(t, spec))

	d := stdio.NewDialer(mcpvisor.ServerSpec{Name: "tiny", Limits: mcpvisor.Limits{MaxMessageBytes: math.MaxInt},
		InMemory: &mcpvisor.InMemory{Serve: transporttest.LegacyServer(nil)}}, transporttest.MemoryOptions)
	s := transporttest.OpenSession(t, d)
	_, err := s.Request(transporttest.Context(t), transporttest.TinyCall("any"))
	require.NoError(t, err)
}
