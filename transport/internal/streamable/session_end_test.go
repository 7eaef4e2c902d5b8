package streamable

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/oauth"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// If the server keeps no session, a 404 fails only the call.
func TestSessionLost_withoutSession(t *testing.T) {
	web := newHTTPServer(t)
	web.session = ""
	web.handle("tools/call", firstTime(replyStatus(404, "", "")))
	s := openSession(t, specFor(web.URL))
	require.Equal(t, mcpvisor.ErrProtocol, requireCallFails(t, s).Kind)
	requireServing(t, s)
}

// newClosableServer serves h at an address until the returned server is closed.
func newClosableServer(t *testing.T, addr string, h http.Handler) (*http.Server, string) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	server := &http.Server{Handler: h}
	var done sync.WaitGroup
	done.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() {
		_ = server.Close()
		done.Wait()
	})
	return server, l.Addr().String()
}

func TestServerDies_duringCall(t *testing.T) {
	web := newHTTPServer(t)
	server, addr := newClosableServer(t, "127.0.0.1:0", web)
	received := make(chan struct{}, 8)
	web.handle("tools/call", func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		received <- struct{}{}
		web.hang(r)
	})
	s := openSession(t, specFor("http://"+addr))
	const calls = 4
	failed := make(chan error, calls)
	for range calls {
		go func() {
			_, err := s.Request(context.Background(), transporttest.ToolCall)
			failed <- err
		}()
	}
	for range calls {
		<-received
	}
	require.NoError(t, server.Close())
	for range calls {
		e := testutil.AsError[*mcpvisor.Error](t, <-failed)
		require.Equal(t, mcpvisor.ErrCrashed, e.Kind, e.Error())
		require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
	}
	transporttest.RequireClosed(t, s.Released(), "session is not released")
}

// The death of a server is detected without a call: its event stream ends, and the next
// connection is refused.
func TestServerDies_idle(t *testing.T) {
	web := newHTTPServer(t)
	server, addr := newClosableServer(t, "127.0.0.1:0", web)
	listening := make(chan struct{}, 8)
	web.handle("GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		startEvents(w)
		listening <- struct{}{}
		web.hang(r)
	})
	s := openSession(t, specFor("http://"+addr))
	<-listening
	require.NoError(t, server.Close())
	transporttest.RequireClosed(t, s.Dead(), "the death is not detected")
	require.Equal(t, supervisor.CauseClosed, s.Cause().Kind)
	require.Contains(t, s.Cause().Message, "nothing listens")
	transporttest.RequireClosed(t, s.Released(), "session is not released")
}

func TestAbort(t *testing.T) {
	web := newHTTPServer(t)
	received := make(chan struct{})
	web.handle("tools/call", func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		close(received)
		web.hang(r)
	})
	s := openSession(t, specFor(web.URL))
	failed := make(chan error, 1)
	go func() { _, err := s.Request(context.Background(), transporttest.ToolCall); failed <- err }()
	<-received
	first := &supervisor.Cause{Kind: supervisor.CauseProbe, Message: "probes went unanswered"}
	s.Abort(first)
	s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
	require.Same(t, first, s.Cause(), "the first cause wins")
	err := <-failed
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	require.ErrorIs(t, err, first)
	transporttest.RequireClosed(t, s.Released(), "session is not released")
	require.Len(t, web.requests("DELETE"), 1)
	require.Equal(t, "session-1", web.requests("DELETE")[0].header.Get("Mcp-Session-Id"))
}

// A session does not change or close the application's transport.
func TestClose_leavesHostTransport(t *testing.T) {
	web := newHTTPServer(t)
	var other http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	elsewhere := httptest.NewServer(other)
	t.Cleanup(elsewhere.Close)
	host := &http.Transport{ResponseHeaderTimeout: time.Hour}
	t.Cleanup(host.CloseIdleConnections)
	spec := specFor(web.URL)
	spec.HTTP.Client = &http.Client{Transport: host}
	s := openSession(t, spec)
	requireServing(t, s)
	s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
	transporttest.RequireClosed(t, s.Released(), "session is not released")
	require.Equal(t, time.Hour, host.ResponseHeaderTimeout)
	require.Nil(t, host.DialContext)
	resp, err := (&http.Client{Transport: host}).Get(elsewhere.URL)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
}

// rpcBody returns a JSON-RPC error with this id.
func rpcBody(id, message string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32000,"message":"` + message + `"}}`
}

// A 404 means that the session is lost; any other reply only in the words of an SDK, while the
// server answers pings. The outcome is NotSent only if the server has certainly not acted on the call.
func TestSessionLossOf(t *testing.T) {
	const page = "<!doctype html><h1>404 Not Found</h1>"
	rows := map[string]struct {
		status  int
		kind    string
		body    string
		lost    bool
		outcome mcpvisor.Outcome
	}{
		"404 empty":                      {404, "", "", true, mcpvisor.OutcomeNotSent},
		"404 status text":                {404, "text/plain", "Not Found\n", true, mcpvisor.OutcomeNotSent},
		"404 of net/http":                {404, "text/plain", "404 page not found\n", true, mcpvisor.OutcomeNotSent},
		"404 of FastAPI":                 {404, "application/json", `{"detail":"Not Found"}`, true, mcpvisor.OutcomeNotSent},
		"404 of the go-sdk":              {404, "text/plain", "session not found\n", true, mcpvisor.OutcomeNotSent},
		"404 of the TypeScript SDK":      {404, "application/json", rpcBody("null", "Session not found"), true, mcpvisor.OutcomeNotSent},
		"404 of the Python SDK":          {404, "application/json", rpcBody(`"server-error"`, "Not Found: Invalid or expired session ID"), true, mcpvisor.OutcomeNotSent},
		"404 of the Python SDK, ended":   {404, "application/json", rpcBody(`"server-error"`, "Not Found: Session has been terminated"), true, mcpvisor.OutcomeNotSent},
		"404 of the Java SDK":            {404, "application/json", `{"message":"Session not found: 41cb0bfd-8e"}`, true, mcpvisor.OutcomeNotSent},
		"404 with another id":            {404, "application/json", rpcBody("5", "Session not found"), true, mcpvisor.OutcomeNotSent},
		"404 of mcp-go":                  {404, "text/plain", "Session terminated\n", true, mcpvisor.OutcomeNotSent},
		"404 after work":                 {404, "text/plain", "booked payment 7; receipt template not found", true, mcpvisor.OutcomeUnknown},
		"404 after work, JSON":           {404, "application/json", `{"message":"payment booked; session not found in cache"}`, true, mcpvisor.OutcomeUnknown},
		"404 after work, second line":    {404, "text/plain", "session not found\npayment 7 booked", true, mcpvisor.OutcomeUnknown},
		"404 after work, RPC error":      {404, "application/json", rpcBody("null", "payment booked; browser session not found"), true, mcpvisor.OutcomeUnknown},
		"404 web page":                   {404, "text/html", page, true, mcpvisor.OutcomeUnknown},
		"404 wording no SDK uses":        {404, "text/plain", "Unknown session", true, mcpvisor.OutcomeUnknown},
		"400 of the TypeScript SDK":      {400, "application/json", rpcBody("null", "Bad Request: Server not initialized"), true, mcpvisor.OutcomeNotSent},
		"400 of the Python SDK":          {400, "text/plain", "Bad Request: No valid session ID provided", true, mcpvisor.OutcomeNotSent},
		"400 of mcp-go":                  {400, "text/plain", "Invalid session ID\n", true, mcpvisor.OutcomeNotSent},
		"400 of the Go SDK over SSE":     {400, "text/plain", "session closed\n", true, mcpvisor.OutcomeNotSent},
		"404 of the Python SDK over SSE": {404, "text/plain", "Could not find session", true, mcpvisor.OutcomeNotSent},
		"400 wording no SDK uses":        {400, "text/plain", "Session expired.", false, mcpvisor.OutcomeAnswered},
		"400 wording no SDK uses, JSON":  {400, "application/json", `{"error":"The session does not exist"}`, false, mcpvisor.OutcomeAnswered},
		"400 not initialized":            {400, "application/json", rpcBody("null", "Server has not been initialized"), false, mcpvisor.OutcomeAnswered},
		"400 after work":                 {400, "text/plain", "payment booked; closing the browser session failed", false, mcpvisor.OutcomeAnswered},
		"400 after work, JSON":           {400, "application/json", `{"message":"payment booked; no valid session for the receipt"}`, false, mcpvisor.OutcomeAnswered},
		"400 about another session":      {400, "text/plain", "database session not found", false, mcpvisor.OutcomeAnswered},
		"400 about another thing":        {400, "text/plain", "database not initialized", false, mcpvisor.OutcomeAnswered},
		"400 empty":                      {400, "", "", false, mcpvisor.OutcomeAnswered},
		"400 web page":                   {400, "text/html", "<p>session not found", false, mcpvisor.OutcomeAnswered},
		"400 the session header removed": {400, "application/json", rpcBody("7", "Bad Request: Mcp-Session-Id header is required"), false, mcpvisor.OutcomeAnswered},
		"401 of an old Rust SDK":         {401, "text/plain", "Unauthorized: Session not found", true, mcpvisor.OutcomeNotSent},
		"401 about the token":            {401, "text/plain", "session not found for this token", false, mcpvisor.OutcomeAnswered},
		"500 session":                    {500, "text/plain", "session not found", false, mcpvisor.OutcomeAnswered},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			web := newHTTPServer(t)
			web.handle("tools/call", replyStatus(row.status, row.kind, row.body))
			s := openSession(t, specFor(web.URL))
			e := requireCallFails(t, s)
			require.Equal(t, row.outcome, e.Outcome, e.Error())
			require.Equal(t, row.lost, s.Cause() != nil, e.Error())
			if row.lost {
				require.Equal(t, mcpvisor.ErrCrashed, e.Kind, e.Error())
				require.ErrorContains(t, e, "forgot the session")
				require.Equal(t, supervisor.CauseClosed, s.Cause().Kind)
				transporttest.RequireClosed(t, s.Released(), "session is not released")
				require.Empty(t, web.requests("DELETE"), "there is nothing to delete")
			}
			require.Len(t, web.requests("tools/call"), 1)
		})
	}
}

// An error with the id of the request is its answer, whatever the status and the message.
// A 404 whose message means a lost session also ends the session.
func TestSessionLost_answerWithOurID(t *testing.T) {
	rows := []struct {
		name    string
		status  int
		message string
		ends    bool
	}{
		{"404 names a session id", 404, "payment booked; session id of the browser is gone", false},
		{"404 lost session", 404, "Session not found", true},
		{"400 lost session", 400, "Session not found", false},
		{"200 lost session", 200, "Session not found", false},
		{"400 not initialized", 400, "Server not initialized", false},
		{"409", 409, "conflict", false},
		{"502", 502, "backend failed", false},
	}
	for _, row := range rows {
		t.Run(strings.ReplaceAll(row.name, " ", "_"), func(t *testing.T) {
			web := newHTTPServer(t)
			web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(row.status)
				writeError(w, id, -32001, row.message)
			})
			s := openSession(t, specFor(web.URL))
			e := requireCallFails(t, s)
			require.Equal(t, mcpvisor.OutcomeAnswered, e.Outcome, e.Error())
			require.Equal(t, mcpvisor.ErrRPC, e.Kind, e.Error())
			require.Equal(t, row.ends, s.Cause() != nil)
		})
	}
}

// A session may end at any moment of its life, and from then on nothing may answer: it is
// released within Timeouts.Shutdown. The test ends it at each step in turn. A step is the
// beginning of a request, its response, and each read of a body.
func TestEnd_atEveryStep(t *testing.T) {
	for name, prepare := range map[string]func(*memoryTransport, *mcpvisor.ServerSpec){
		"no event stream": func(*memoryTransport, *mcpvisor.ServerSpec) {},
		"event stream": func(web *memoryTransport, _ *mcpvisor.ServerSpec) {
			web.handle("GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
				startEvents(w)
				web.hang(r)
			})
		},
		"event stream is slow": func(web *memoryTransport, _ *mcpvisor.ServerSpec) {
			web.handle("GET", func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) { web.hang(r) })
		},
		"modern": func(web *memoryTransport, _ *mcpvisor.ServerSpec) {
			web.handle("server/discover", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
				writeResult(w, id, `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete"}`)
			})
		},
		"unknown version": func(web *memoryTransport, _ *mcpvisor.ServerSpec) {
			web.handle("initialize", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
				w.Header().Set("Mcp-Session-Id", "session-1")
				writeResult(w, id, `{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{"name":"odd","version":"1"}}`)
			})
		},
		"redirects": func(web *memoryTransport, _ *mcpvisor.ServerSpec) {
			web.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/real" {
					http.Redirect(w, r, "/real", http.StatusTemporaryRedirect)
					return
				}
				web.ServeHTTP(w, r)
			})
		},
		"HTTP+SSE": func(web *memoryTransport, _ *mcpvisor.ServerSpec) {
			web.handler = &sseServer{testServer: web.testServer, endpoint: "/messages?sessionId=" + sseSecret}
		},
		"OAuth": func(web *memoryTransport, spec *mcpvisor.ServerSpec) {
			spec.HTTP.Auth = &oauth.Config{Grant: oauth.GrantClientCredentials, ClientID: "me", ClientSecret: "very-secret"}
			web.handler = requireToken(web)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for step := int32(1); endAtStep(t, prepare, step); step++ {
			}
		})
	}
}

// endAtStep opens a session, makes a call, and ends the session at a step; at the end of
// the call if there are fewer steps. It reports whether there are more.
func endAtStep(t *testing.T, prepare func(*memoryTransport, *mcpvisor.ServerSpec), step int32) (more bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		web := newMemoryTransport(t)
		spec := web.spec()
		prepare(web, &spec)
		steps := &stepTransport{base: web, at: step, free: make(chan struct{})}
		spec.HTTP.Client.Transport = steps
		spec.Timeouts.Shutdown = time.Second
		s := newTestDialer(spec).NewSession().(*session)
		var began atomic.Pointer[time.Time] // a goroutine that is left behind may set it
		steps.end = func() {
			now := time.Now()
			began.Store(&now)
			s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
		}
		if s.Open(t.Context()) == nil {
			_, _ = s.Request(t.Context(), transporttest.ToolCall)
		}
		synctest.Wait()
		if more = steps.count.Load() >= step; !more {
			steps.freeze()
		}
		<-s.Released()
		require.LessOrEqual(t, time.Since(*began.Load()), spec.Timeouts.Shutdown, "the session ended at step %d", step)
		close(steps.free)
	})
	return more
}

// A session may end before or after each message of the go-sdk: Connect does not wait.
func TestEnd_betweenMessagesOfTheSDK(t *testing.T) {
	for step, more := int32(1), true; more; step++ {
		synctest.Test(t, func(t *testing.T) {
			web := newMemoryTransport(t)
			s := newTestDialer(web.spec()).NewSession().(*session)
			var count int32
			conn := hookedConn{jsonrpc.NewSDKConn(s.negotiation.sendRequest, s.negotiation.sendNotification), func() {
				if count++; count == step {
					s.Abort(transporttest.ErrGivenUp)
					synctest.Wait() // until the session starts no tasks
				}
			}}
			began := time.Now()
			client, err := mcp.NewClient(transporttest.ClientInfo, nil).Connect(t.Context(), conn, nil)
			require.Zero(t, time.Since(began), "the session ended at step %d", step)
			if err == nil {
				_ = conn.Close()
				_ = client.Close()
			}
			more = count >= step
			s.Abort(transporttest.ErrGivenUp)
			<-s.Released()
		})
	}
}

// hookedConn calls a function before and after each Write.
type hookedConn struct {
	*jsonrpc.SDKConn
	hook func()
}

func (c hookedConn) Connect(context.Context) (mcp.Connection, error) { return c, nil }

func (c hookedConn) Write(ctx context.Context, m sdkrpc.Message) error {
	c.hook()
	defer c.hook()
	return c.SDKConn.Write(ctx, m)
}

// stepTransport is a RoundTripper that calls end at a step of its requests. From then on no
// request gets a response, and no body a byte.
type stepTransport struct {
	base   http.RoundTripper
	at     int32
	end    func()
	free   chan struct{} // closed: nothing blocks
	count  atomic.Int32  // steps
	frozen atomic.Bool
}

// step counts a step.
func (s *stepTransport) step() {
	if s.count.Add(1) == s.at {
		s.freeze()
	}
}

func (s *stepTransport) freeze() {
	s.frozen.Store(true)
	s.end()
}

// hang blocks while nothing answers.
func (s *stepTransport) hang(ctx context.Context) error {
	if !s.frozen.Load() {
		return nil
	}
	select {
	case <-ctx.Done():
	case <-s.free:
	}
	return io.ErrUnexpectedEOF
}

// RoundTrip implements http.RoundTripper.
func (s *stepTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	s.step()
	if err := s.hang(req.Context()); err != nil {
		return nil, err
	}
	resp, err := s.base.RoundTrip(req)
	s.step()
	if err == nil {
		resp.Body = &stepBody{resp.Body, s, req.Context()}
	}
	return resp, err
}

// stepBody is the body of a response.
type stepBody struct {
	io.ReadCloser
	steps *stepTransport
	ctx   context.Context //nolint:containedctx // of the request
}

// Read implements io.Reader.
func (b *stepBody) Read(p []byte) (int, error) {
	if err := b.steps.hang(b.ctx); err != nil {
		return 0, err
	}
	n, err := b.ReadCloser.Read(p)
	b.steps.step()
	return n, err
}

// requireToken serves web to those who have a token, with the authorization server that
// issues it.
func requireToken(web *memoryTransport) http.Handler {
	const origin = "http://wireless.invalid"
	mux := http.NewServeMux()
	document := func(path, text string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, text)
		})
	}
	document("/.well-known/oauth-protected-resource/mcp", `{"resource":"`+origin+`/mcp","authorization_servers":["`+origin+`"]}`)
	document("/.well-known/oauth-authorization-server", `{"issuer":"`+origin+`","authorization_endpoint":"`+origin+`/authorize","token_endpoint":"`+origin+`/token","response_types_supported":["code"]}`)
	document("/token", `{"access_token":"a-token-of-the-server","token_type":"Bearer","expires_in":3600}`)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		web.ServeHTTP(w, r)
	})
	return mux
}
