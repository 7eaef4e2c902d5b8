package streamable

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/httpbody"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// The go-sdk's own server of HTTP+SSE is recognised without a hint in the
// specification.
func TestSSE_againstSDK(t *testing.T) {
	checkLeaks(t)
	server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "2"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		Text string `json:"text,omitempty"`
	}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello " + in.Text}}}, nil, nil
	})
	web := httptest.NewServer(mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	for _, told := range []bool{true, false} {
		spec := specFor(web.URL)
		spec.HTTP.SSE = told
		d := newTestDialer(spec)
		for range 2 {
			s := d.NewSession()
			transporttest.ReleaseAtEnd(t, s)
			require.NoError(t, s.Open(transporttest.Context(t)))
			require.Contains(t, s.Info().Deprecated, "HTTP+SSE")
			require.Equal(t, "sdk", s.Info().ServerName)
			requireServing(t, s)
			require.NoError(t, transport.Probe(transporttest.Context(t), s))
			require.False(t, s.LastReceived().IsZero())
		}
	}
}

func TestSSEFallback(t *testing.T) {
	t.Run("remembered", func(t *testing.T) {
		web := newSSEServer(t)
		d := newTestDialer(specFor(web.URL + "/sse"))
		for range 2 {
			s := d.NewSession()
			transporttest.ReleaseAtEnd(t, s)
			require.NoError(t, s.Open(transporttest.Context(t)))
			requireServing(t, s)
		}
		require.Len(t, web.requests("POST"), 2, "server/discover and initialize, refused once each")
		require.Len(t, web.requests("GET"), 2)
		require.Len(t, web.requests("initialize"), 2)
		require.Len(t, web.requests("notifications/initialized"), 2)
		require.Empty(t, web.requests("DELETE"))
	})
	for _, status := range []int{400, 404, 405} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			web := newSSEServer(t)
			web.handle("POST", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
				w.WriteHeader(status)
				if status == 400 { // in words of JSON-RPC, without the id
					_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request"}}`)
				}
			})
			requireServing(t, openSession(t, specFor(web.URL+"/sse")))
		})
	}
	for _, status := range []int{401, 500, 503} {
		t.Run("not after "+http.StatusText(status), func(t *testing.T) {
			web := newSSEServer(t)
			web.handle("POST", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) { w.WriteHeader(status) })
			requireOpenFails(t, specFor(web.URL+"/sse"))
			require.Empty(t, web.requests("GET"))
		})
	}
	t.Run("refusal stands if there is no stream", func(t *testing.T) {
		web := newSSEServer(t)
		web.handle("GET", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) { w.WriteHeader(http.StatusNotFound) })
		cause := requireOpenFails(t, specFor(web.URL+"/sse"))
		require.Contains(t, cause.Message, "HTTP 405")
	})
	t.Run("refusal stands if the stream names no endpoint", func(t *testing.T) {
		web := newSSEServer(t)
		web.handle("GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			startEvents(w)("data: {}\n\n")
			<-r.Context().Done()
		})
		cause := requireOpenFails(t, specFor(web.URL+"/sse"))
		require.Contains(t, cause.Message, "HTTP 405")
	})
	t.Run("waits no longer than Negotiate", func(t *testing.T) {
		web := newSSEServer(t)
		web.handle("GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			startEvents(w)
			<-r.Context().Done()
		})
		spec := specFor(web.URL + "/sse")
		spec.Timeouts.Negotiate = 50 * time.Millisecond
		require.Contains(t, requireOpenFails(t, spec).Message, "HTTP 405")
	})
	t.Run("not in the modern era", func(t *testing.T) {
		web := newSSEServer(t)
		spec := specFor(web.URL + "/sse")
		spec.Era = mcpvisor.EraModern
		requireOpenFails(t, spec)
		require.Empty(t, web.requests("GET"))
	})
	t.Run("forgotten when the server has changed", func(t *testing.T) {
		web := newSSEServer(t)
		d := newTestDialer(specFor(web.URL + "/sse"))
		s := d.NewSession()
		transporttest.ReleaseAtEnd(t, s)
		require.NoError(t, s.Open(transporttest.Context(t)))
		web.handle("GET", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
			w.WriteHeader(http.StatusMethodNotAllowed)
		})
		s = d.NewSession()
		transporttest.ReleaseAtEnd(t, s)
		require.Error(t, s.Open(transporttest.Context(t)))
		require.False(t, d.knownSSE())
	})
}

func TestSSE_startFails(t *testing.T) {
	foreign := newHTTPServer(t)
	for name, tc := range map[string]struct {
		endpoint string
		stream   func(w http.ResponseWriter, r *http.Request)
		says     string
		kind     supervisor.CauseKind
	}{
		"foreign origin":     {endpoint: foreign.URL + "/messages?sessionId=" + sseSecret, says: "another origin"},
		"foreign scheme":     {endpoint: "https://127.0.0.1/messages", says: "another origin"},
		"protocol relative":  {endpoint: "//example.invalid/messages", says: "another origin"},
		"no URL":             {endpoint: "http://[::1/messages", says: "not a valid URL"},
		"no http":            {endpoint: "file:///etc/passwd", says: "another origin"},
		"too long":           {endpoint: "/" + strings.Repeat("x", maxEndpointURL), says: "longer than 8192 bytes"},
		"empty":              {endpoint: "", says: "that is empty"},
		"no stream":          {stream: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }, says: "without an event stream"},
		"refused":            {stream: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(405) }, says: `leave out the type "sse"`},
		"no permission":      {stream: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, says: "HTTP 401", kind: supervisor.CauseAuth},
		"no endpoint, ended": {stream: func(w http.ResponseWriter, _ *http.Request) { startEvents(w)(": hi\n\n") }, says: "without naming an endpoint"},
		"no endpoint":        {stream: func(w http.ResponseWriter, r *http.Request) { startEvents(w)(": hi\n\n"); <-r.Context().Done() }, says: "did not name its endpoint", kind: supervisor.CauseTimeout},
		"no header":          {stream: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, says: "did not name its endpoint", kind: supervisor.CauseTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			web := newSSEServer(t)
			web.endpoint = tc.endpoint
			if tc.stream != nil {
				web.handle("GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) { tc.stream(w, r) })
			}
			s := newTestDialer(sseSpec(web)).NewSession()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err := s.Open(ctx)
			var cause *supervisor.Cause
			require.ErrorAs(t, err, &cause)
			transporttest.RequireClosed(t, s.Released(), "session is not released")
			require.Contains(t, cause.Message, tc.says)
			require.NotContains(t, cause.Message, sseSecret)
			if tc.kind != "" {
				require.Equal(t, tc.kind, cause.Kind)
			}
			require.Empty(t, foreign.requests("initialize"))
			require.Empty(t, web.requests("initialize"))
		})
	}
}

// A redirect within the origin moves the address against which the endpoint is read.
func TestSSE_streamRedirected(t *testing.T) {
	web := newSSEServer(t)
	web.endpoint = "../messages?sessionId=" + sseSecret
	spec := sseSpec(web)
	spec.HTTP.URL = web.URL + "/moved"
	web.handle("GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/deep/sse", http.StatusFound)
			return
		}
		web.stream(w, r)
	})
	requireServing(t, openSession(t, spec))
}

func TestSSE_endpointTooLate(t *testing.T) {
	s := newTestDialer(specFor("http://127.0.0.1:1/sse")).NewSession().(*session)
	transporttest.ReleaseAtEnd(t, s)
	c := &sseConn{s: s, opened: make(chan *endpoint.HTTPError, 1)}
	require.True(t, c.openingOver.CompareAndSwap(false, true), "the time is up")
	httpErr := c.readEndpoint(httpbody.NewEventReader(strings.NewReader("event: endpoint\ndata: /messages\n\n"), 1<<10), &http.Response{})
	require.ErrorContains(t, httpErr, "too late")
	require.Nil(t, s.sse.Load())
}

// What belongs to another protocol layer than the address is not taken.
func TestSSE_endpointAddress(t *testing.T) {
	s := newTestDialer(specFor("http://127.0.0.1:1/deep/sse?key=1")).NewSession().(*session)
	transporttest.ReleaseAtEnd(t, s)
	c := &sseConn{s: s}
	for text, want := range map[string]string{
		"/messages?s=1": "http://127.0.0.1:1/messages?s=1",
		"messages":      "http://127.0.0.1:1/deep/messages",
		"?s=1":          "http://127.0.0.1:1/deep/sse?s=1",
		"http://user:word@127.0.0.1:1/messages#at": "http://127.0.0.1:1/messages",
	} {
		got, httpErr := c.parseEndpointEvent(httpbody.Event{Data: []byte(text)}, &http.Response{})
		require.Nil(t, httpErr, text)
		require.Equal(t, want, got.String())
	}
}
