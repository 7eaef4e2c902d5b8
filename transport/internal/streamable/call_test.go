package streamable

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

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
	require.NotEmpty(t, web.requests("GET"))
	for _, r := range web.requests("GET") {
		require.Equal(t, "Bearer abc", r.header.Get("Authorization"))
		require.Equal(t, "2025-11-25", r.header.Get("Mcp-Protocol-Version"))
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
		answered := &endpoint.HTTPError{Message: "no", Kind: mcpvisor.ErrRPC, Outcome: mcpvisor.OutcomeAnswered}
		e := testutil.AsError[*mcpvisor.Error](t, s.calls.callError(canceled, answered))
		require.Equal(t, mcpvisor.ErrRPC, e.Kind)
		s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
		require.ErrorAs(t, s.calls.callError(open, answered), &e)
		require.Equal(t, mcpvisor.ErrRPC, e.Kind)
	})
}

// A call of a session that was never opened fails as not sent. One that was aborted is not opened.
func TestRequest_beforeOpen(t *testing.T) {
	s := newTestDialer(specFor("http://wireless.invalid/mcp")).NewSession()
	_, err := s.Request(t.Context(), transporttest.ToolCall)
	var e *mcpvisor.Error
	require.True(t, errors.As(err, &e))
	require.Equal(t, mcpvisor.ErrUnavailable, e.Kind)
	require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
	why := &supervisor.Cause{Kind: supervisor.CauseRequested}
	s.Abort(why)
	transporttest.RequireClosed(t, s.Released(), "session is not released")
	require.ErrorIs(t, s.Open(t.Context()), why)
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
			require.Equal(t, mcpvisor.ErrProtocol, e.Kind)
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
