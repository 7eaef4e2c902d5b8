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
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/httpbody"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// A session with the go-sdk's server over HTTP+SSE works, whether or not the spec says that
// the server speaks HTTP+SSE.
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
	for _, inSpec := range []bool{true, false} {
		spec := specFor(web.URL)
		spec.HTTP.SSE = inSpec
		d := newTestDialer(spec)
		for range 2 {
			s := transporttest.OpenSession(t, d)
			require.Contains(t, s.Info().Deprecated, "HTTP+SSE")
			require.Equal(t, "sdk", s.Info().ServerName)
			requireServing(t, s)
			require.NoError(t, transport.Probe(transporttest.Context(t), s))
			require.False(t, s.LastReceived().IsZero())
		}
	}
}

func TestSSE_startFails(t *testing.T) {
	foreign := newHTTPServer(t)
	for name, tc := range map[string]struct {
		endpoint string
		stream   func(w http.ResponseWriter, r *http.Request)
		want     string
		kind     supervisor.CauseKind
	}{
		"foreign origin": {endpoint: foreign.URL + "/messages?sessionId=" + sseSecret, want: "another origin"},
		"no URL":         {endpoint: "http://[::1/messages", want: "not a valid URL"},
		"no http URL":    {endpoint: "file:///etc/passwd", want: "another origin"},
		"empty":          {endpoint: "", want: "that is empty"},
		"refused":        {stream: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(405) }, want: `leave out the type "sse"`},
		"no permission":  {stream: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, want: "HTTP 401", kind: supervisor.CauseAuth},
		"no header":      {stream: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, want: "did not name its endpoint", kind: supervisor.CauseTimeout},
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
			cause := testutil.AsError[*supervisor.Cause](t, err)
			transporttest.RequireClosed(t, s.Released(), "session is not released")
			require.Contains(t, cause.Message, tc.want)
			require.NotContains(t, cause.Message, sseSecret)
			if tc.kind != "" {
				require.Equal(t, tc.kind, cause.Kind)
			}
			require.Empty(t, foreign.requests("initialize"))
			require.Empty(t, web.requests("initialize"))
		})
	}
}

// After a redirect of the stream, a relative endpoint is resolved against the new URL.
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
	c := &sseConn{exchanger: s.exchanger, opened: make(chan *endpoint.HTTPError, 1)}
	require.True(t, c.openingOver.CompareAndSwap(false, true), "the time for the endpoint event has passed")
	httpErr := c.readEndpoint(httpbody.NewEventReader(strings.NewReader("event: endpoint\ndata: /messages\n\n"), 1<<10), &http.Response{})
	require.ErrorContains(t, httpErr, "too late")
	require.Nil(t, s.exchanger.sse.Load())
}

// User, password and fragment are removed from the address in the endpoint event.
func TestSSE_endpointAddress(t *testing.T) {
	s := newTestDialer(specFor("http://127.0.0.1:1/deep/sse?key=1")).NewSession().(*session)
	transporttest.ReleaseAtEnd(t, s)
	c := &sseConn{exchanger: s.exchanger}
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

// A server behind a proxy that strips a prefix of the path names an address that the proxy
// does not know. The error names it and its status; MessagesURL replaces it.
func TestSSE_behind_stripped_prefix(t *testing.T) {
	inner := newSSEServer(t)
	outer := httptest.NewServer(http.StripPrefix("/team/tools", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path != "/messages" {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		inner.ServeHTTP(w, r)
	})))
	t.Cleanup(func() { outer.CloseClientConnections(); outer.Close() })
	spec := specFor(outer.URL + "/team/tools/sse")
	spec.HTTP.SSE = true
	cause := requireOpenFails(t, spec)
	require.Contains(t, cause.Message, "HTTP 404 Not Found")
	require.Contains(t, cause.Message, outer.URL+"/messages")
	require.Contains(t, cause.Message, "messages_url")
	require.NotContains(t, cause.Message, "forgot the session")
	require.NotContains(t, cause.Message, sseSecret)

	for _, address := range []string{"/team/tools/messages", "messages", outer.URL + "/team/tools/messages"} {
		spec.HTTP.MessagesURL = address
		require.NoError(t, spec.Validate())
		requireServing(t, openSession(t, spec))
	}
	for _, address := range []string{"http://elsewhere.invalid/messages", "//elsewhere.invalid/m", ":"} {
		spec.HTTP.MessagesURL = address
		require.ErrorContains(t, spec.Validate(), "MessagesURL")
	}
}

// newest returns the key of the exchange that began last and is not on the call channel.
func (t *exchangeTable) newest() (key int64) {
	t.requests.Mu.Lock()
	defer t.requests.Mu.Unlock()
	for e := range t.requests.Open.All() {
		key = min(key, e.ID)
	}
	return key
}

// contains reports whether an exchange is in the table.
func (t *exchangeTable) contains(key int64) bool {
	t.requests.Mu.Lock()
	defer t.requests.Mu.Unlock()
	return t.requests.Open.Get(key) != nil
}

// The rejected POST may end while the event stream is being opened. That does not end the
// fallback.
func TestSSEFallback_refusalInPieces(t *testing.T) {
	web := newSSEServer(t)
	spec := specFor(web.URL + "/sse")
	spec.Era = mcpvisor.EraLegacy // no server/discover before it
	s := newTestDialer(spec).NewSession().(*session)
	transporttest.ReleaseAtEnd(t, s)
	opening := make(chan struct{})
	var refused int64 // the exchange of the POST
	web.handle("POST", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		refused = s.exchanger.table.newest()
		w.WriteHeader(http.StatusMethodNotAllowed)
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Method not allowed."},"id":null}`)
		w.(http.Flusher).Flush()
		select {
		case <-opening:
		case <-web.quit:
		}
	})
	web.handle("GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		close(opening)
		for s.exchanger.table.contains(refused) { // until the rest of the POST was read
			select {
			case <-time.After(time.Millisecond):
			case <-r.Context().Done():
				return
			}
		}
		web.stream(w, r)
	})
	require.NoError(t, s.Open(transporttest.Context(t)))
	requireServing(t, s)
}

// If both the POST and the event stream are rejected, the cause is the error that explains
// more.
func TestSSEFallback_errorOfStream(t *testing.T) {
	for name, row := range map[string]struct {
		post, get int
		want      string
		kind      supervisor.CauseKind
	}{
		"405, then 401": {405, 401, "HTTP 401", supervisor.CauseAuth},
		"404, then 401": {404, 401, "HTTP 401", supervisor.CauseAuth},
		"404, then 403": {404, 403, "HTTP 403", supervisor.CauseAuth},
		"405, then 429": {405, 429, "HTTP 429", supervisor.CauseHandshake},
		"405, then 502": {405, 502, "HTTP 502", supervisor.CauseHandshake},
		"404, then 503": {404, 503, "HTTP 503", supervisor.CauseHandshake},
		"404, then 504": {404, 504, "HTTP 504", supervisor.CauseHandshake},
		"400, then 401": {400, 401, "HTTP 400", supervisor.CauseHandshake},
		"400, then 503": {400, 503, "HTTP 400", supervisor.CauseHandshake},
		"405, then 404": {405, 404, "HTTP 405", supervisor.CauseHandshake},
		"405, then 500": {405, 500, "HTTP 405", supervisor.CauseHandshake},
		"404, then 200": {404, 200, "HTTP 404", supervisor.CauseHandshake},
	} {
		t.Run(name, func(t *testing.T) {
			web := newSSEServer(t)
			web.handle("POST", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) { w.WriteHeader(row.post) })
			web.handle("GET", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(row.get)
			})
			cause := requireOpenFails(t, specFor(web.URL+"/sse"))
			require.Contains(t, cause.Message, row.want)
			require.Equal(t, row.kind, cause.Kind)
			if row.get == http.StatusTooManyRequests {
				require.Equal(t, 7*time.Second, cause.RetryAfter)
			}
		})
	}
}

// A session falls back to HTTP+SSE when initialize over Streamable HTTP is rejected with
// 400, 404 or 405, and the dialer remembers it.
func TestSSEFallback(t *testing.T) {
	t.Run("remembered", func(t *testing.T) {
		web := newSSEServer(t)
		d := newTestDialer(specFor(web.URL + "/sse"))
		for range 2 {
			s := transporttest.OpenSession(t, d)
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
				if status == 400 { // a JSON-RPC error without an id
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
	t.Run("POST error kept without a stream", func(t *testing.T) {
		web := newSSEServer(t)
		web.handle("GET", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) { w.WriteHeader(http.StatusNotFound) })
		cause := requireOpenFails(t, specFor(web.URL+"/sse"))
		require.Contains(t, cause.Message, "HTTP 405")
	})
	t.Run("POST error kept without an endpoint event", func(t *testing.T) {
		web := newSSEServer(t)
		web.handle("GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			startEvents(w)("data: {}\n\n")
			<-r.Context().Done()
		})
		cause := requireOpenFails(t, specFor(web.URL+"/sse"))
		require.Contains(t, cause.Message, "HTTP 405")
	})
	t.Run("bounded by Negotiate", func(t *testing.T) {
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
	t.Run("forgotten after a failed start", func(t *testing.T) {
		web := newSSEServer(t)
		d := newTestDialer(specFor(web.URL + "/sse"))
		transporttest.OpenSession(t, d)
		web.handle("GET", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
			w.WriteHeader(http.StatusMethodNotAllowed)
		})
		s := d.NewSession()
		transporttest.ReleaseAtEnd(t, s)
		require.Error(t, s.Open(transporttest.Context(t)))
		require.False(t, d.sse.Load())
	})
}
