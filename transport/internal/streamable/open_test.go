package streamable

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// handler replaces the reply of a test server to one kind of request. id is the id of the
// request.
type handler = func(w http.ResponseWriter, r *http.Request, id json.RawMessage)

func replyStatus(code int, contentType, body string) handler {
	return func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		if contentType != "" {
			w.Header().Set("Content-Type", contentType)
		}
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

func TestOpen_refused(t *testing.T) {
	page := "<!DOCTYPE html><html><body>Welcome</body></html>"
	rows := []struct {
		name      string
		reply     handler
		kind      supervisor.CauseKind
		permanent bool
		want      []string
	}{
		{"401", replyStatus(401, "text/plain", "who are you\n"), supervisor.CauseAuth, true, []string{"HTTP 401", "who are you", "headers"}},
		{"403 JSON", replyStatus(403, "application/json", `{"error":"insufficient_scope","error_description":"not you"}`), supervisor.CauseAuth, true, []string{"HTTP 403", "not you"}},
		{"407", replyStatus(407, "", ""), supervisor.CauseAuth, true, []string{"HTTP 407"}},
		{"404", replyStatus(404, "text/plain", "404 page not found"), supervisor.CauseHandshake, false, []string{"HTTP 404", " at http://127.0.0.1:", "check the path of the URL"}},
		{"500 web page", replyStatus(500, "text/html", page), supervisor.CauseHandshake, false, []string{"HTTP 500"}},
		{"200 web page without a media type", replyStatus(200, "", page), supervisor.CauseHandshake, false, []string{"not an MCP endpoint"}},
		{"other version", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			writeResult(w, id, `{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{"name":"x","version":"1"}}`)
		}, supervisor.CauseVersion, true, []string{"no protocol version in common"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			web := newHTTPServer(t)
			web.handle("initialize", row.reply)
			cause := requireOpenFails(t, specFor(web.URL))
			require.Equal(t, row.kind, cause.Kind, cause.Message)
			require.Equal(t, row.permanent, cause.Permanent)
			for _, text := range row.want {
				require.Contains(t, cause.Message, text)
			}
			require.NotContains(t, cause.Message, "<")
		})
	}
}

func TestOpen_nothingListens(t *testing.T) {
	checkLeaks(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	cause := requireOpenFails(t, specFor("http://"+addr+"/mcp"))
	require.Equal(t, supervisor.CauseSpawn, cause.Kind)
	require.False(t, cause.Permanent)
	require.Contains(t, cause.Message, "nothing listens at "+addr)
}

func TestOpen_tlsMismatch(t *testing.T) {
	web := newHTTPServer(t)
	cause := requireOpenFails(t, specFor(strings.Replace(web.URL, "http:", "https:", 1)))
	require.Contains(t, cause.Message, "does not speak TLS")

	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	cause = requireOpenFails(t, specFor(secure.URL))
	require.Contains(t, cause.Message, "is not trusted")
}

// A status that asks the client to retry later fails the start, because it does not show
// which era the server speaks.
func TestOpen_unavailableAtDiscover(t *testing.T) {
	for _, code := range []int{429, 502, 503, 504} {
		web := newHTTPServer(t)
		web.handle("server/discover", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(code)
		})
		cause := requireOpenFails(t, specFor(web.URL))
		require.False(t, cause.Permanent, code)
		require.Contains(t, cause.Message, fmt.Sprint(code))
		if code == 429 || code == 503 {
			require.Equal(t, 7*time.Second, cause.RetryAfter, code)
		}
		require.Empty(t, web.requests("initialize"), code)
	}
}

// The legacy era is remembered only if the server has rejected server/discover.
func TestOpen_eraUncertain(t *testing.T) {
	for name, c := range map[string]struct {
		reply     handler
		discovers int // requests of two sessions
	}{
		"no such method":  {nil, 1},
		"bad request":     {replyStatus(400, "", "what?"), 1},
		"broken":          {replyStatus(500, "", ""), 2},
		"not implemented": {replyStatus(501, "", ""), 1},
		"no answer":       {replyStatus(202, "", ""), 2},
		"unauthorized":    {replyStatus(401, "", ""), 2},
		"internal error":  {func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) { writeError(w, id, -32603, "oops") }, 2},
	} {
		web := newHTTPServer(t)
		web.handle("server/discover", c.reply)
		d := newTestDialer(specFor(web.URL))
		for range 2 {
			s := d.NewSession()
			transporttest.ReleaseAtEnd(t, s)
			require.NoError(t, s.Open(transporttest.Context(t)), name)
			require.Equal(t, mcpvisor.EraLegacy, s.Info().Era, name)
		}
		require.Len(t, web.requests("server/discover"), c.discovers, name)
	}
}

func TestOpen_modernEraOnly(t *testing.T) {
	web := newHTTPServer(t)
	spec := specFor(web.URL)
	spec.Era = mcpvisor.EraModern
	cause := requireOpenFails(t, spec)
	require.Equal(t, supervisor.CauseVersion, cause.Kind, cause.Message)
	require.True(t, cause.Permanent)
	require.Empty(t, web.requests("initialize"))

	web.handle("server/discover", replyStatus(401, "", ""))
	cause = requireOpenFails(t, spec)
	require.Equal(t, supervisor.CauseAuth, cause.Kind, cause.Message)
}

// Open does not wait for the DELETE after a failed start.
func TestOpen_doesNotWaitForDelete(t *testing.T) {
	web := newHTTPServer(t)
	hang := func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) { web.hang(r) }
	web.handle("notifications/initialized", hang)
	web.handle("DELETE", hang)
	spec := specFor(web.URL)
	spec.Timeouts.Shutdown = 3 * time.Second
	s := newTestDialer(spec).NewSession()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	require.Error(t, s.Open(ctx))
	require.Less(t, time.Since(start), 2*time.Second)
	transporttest.RequireClosed(t, s.Released(), "session is not released")
}

// The last error is the cause of a failed start, and not an earlier error.
func TestOpen_lastErrorExplains(t *testing.T) {
	web := newHTTPServer(t)
	web.handle("server/discover", replyStatus(500, "", ""))
	web.handle("initialize", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		writeResult(w, id, `{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{"name":"x","version":"1"}}`)
	})
	cause := requireOpenFails(t, specFor(web.URL))
	require.Equal(t, supervisor.CauseVersion, cause.Kind, cause.Message)
}

// Only the status 400 or 405 proves that a server is not modern.
func TestOpen_modernEraRefused(t *testing.T) {
	for code, permanent := range map[int]bool{400: true, 405: true, 404: false, 500: false, 503: false} {
		synctest.Test(t, func(t *testing.T) {
			web := newMemoryTransport(t)
			web.handle("server/discover", replyStatus(code, "", ""))
			spec := web.spec()
			spec.Era = mcpvisor.EraModern
			cause := requireOpenFails(t, spec)
			require.Equal(t, permanent, cause.Permanent, "%d: %s", code, cause.Message)
			require.Equal(t, permanent, cause.Kind == supervisor.CauseVersion, "%d: %s", code, cause.Message)
			require.Empty(t, web.requests("initialize"))
		})
	}
}

// Open returns when its context ends. The cause is the timeout, and not an earlier error.
func TestOpen_endsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := newMemoryTransport(t)
		web.handle("server/discover", replyStatus(500, "", ""))
		spec := web.spec()
		spec.HTTP.Client = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Header.Get("Mcp-Method") == "" && r.Method == http.MethodPost && len(web.requests("server/discover")) > 0 {
				<-r.Context().Done()
				return nil, errors.New("at last")
			}
			return web.RoundTrip(r)
		})}
		s := newTestDialer(spec).NewSession()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		require.Error(t, s.Open(ctx))
		require.Equal(t, time.Second, time.Since(began))
		require.Equal(t, supervisor.CauseTimeout, s.Cause().Kind, s.Cause().Message)
		<-s.Released()
		require.LessOrEqual(t, time.Since(began), time.Second+2*defaults.ShutdownTimeout)
	})
}

// An event stream without a response header delays the opening by Timeouts.Negotiate, and by two
// seconds at most. Some servers send no response header before the first event.
func TestOpen_stalledStreamBounded(t *testing.T) {
	for negotiate, want := range map[time.Duration]time.Duration{time.Hour: 2 * time.Second, 50 * time.Millisecond: 50 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			web := newMemoryTransport(t)
			web.handle("GET", func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) { <-r.Context().Done() })
			spec := web.spec()
			spec.Timeouts.Negotiate = negotiate
			began := time.Now()
			requireServing(t, openSession(t, spec))
			require.Equal(t, want, time.Since(began))
		})
	}
}

// A URL that cannot be parsed is a permanent error.
func TestOpen_invalidURL(t *testing.T) {
	cause := requireOpenFails(t, specFor("http://host:port/mcp"))
	require.Equal(t, supervisor.CauseConfig, cause.Kind)
	require.True(t, cause.Permanent)
}

// With a server that is known to be modern, server/discover may take longer than
// Timeouts.Negotiate. The server may also have become a legacy server.
func TestEra_remembered(t *testing.T) {
	rows := map[string]struct {
		discover handler
		want     mcpvisor.Era
	}{
		"slow": {func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			time.Sleep(2 * defaults.NegotiateTimeout)
			replyModern(w, r, id)
		}, mcpvisor.EraModern},
		"legacy now":            {nil, mcpvisor.EraLegacy},
		"broken, speaks legacy": {replyStatus(500, "", ""), mcpvisor.EraLegacy},
	}
	for name, row := range rows {
		testutil.RunInBubble(t, name, func(t *testing.T) {
			web := newMemoryTransport(t)
			d := newTestDialer(web.spec())
			web.handle("server/discover", replyModern)
			for _, want := range []mcpvisor.Era{mcpvisor.EraModern, row.want} {
				s := d.NewSession()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				require.NoError(t, s.Open(ctx))
				require.Equal(t, want, s.Info().Era)
				s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
				<-s.Released()
				web.handle("server/discover", row.discover)
			}
		})
	}
}

// The remembered era is dropped if it may be the reason why a session could not be opened,
// and only then.
func TestEra_forgotten(t *testing.T) {
	never := func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) { <-r.Context().Done() }
	rows := map[string]struct {
		reply    handler
		fails    error // of the connection
		canceled bool
		kind     supervisor.CauseKind
		want     mcpvisor.Era
	}{
		"refused":     {replyStatus(500, "", ""), nil, false, supervisor.CauseHandshake, mcpvisor.EraAuto},
		"silent":      {never, nil, false, supervisor.CauseTimeout, mcpvisor.EraAuto},
		"canceled":    {never, nil, true, supervisor.CauseRequested, mcpvisor.EraModern},
		"unreachable": {nil, &net.OpError{Op: "dial", Err: errors.New("no route to host")}, false, supervisor.CauseSpawn, mcpvisor.EraModern},
	}
	for name, row := range rows {
		testutil.RunInBubble(t, name, func(t *testing.T) {
			web := newMemoryTransport(t)
			web.handle("server/discover", row.reply)
			web.handle("initialize", row.reply)
			spec := web.spec()
			spec.HTTP.Client = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				if row.fails != nil {
					return nil, row.fails
				}
				return web.RoundTrip(r)
			})}
			d := newTestDialer(spec)
			d.era.Store(mcpvisor.EraModern)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if row.canceled {
				time.AfterFunc(time.Second, cancel)
			}
			s := d.NewSession()
			require.Error(t, s.Open(ctx))
			require.Equal(t, row.kind, s.Cause().Kind, s.Cause().Message)
			require.Equal(t, row.want, d.knownEra())
			<-s.Released()
		})
	}
}

// restartableServer is a legacy server that can lose its handshake, as a server does that
// a wrapper has restarted on the same pipes.
type restartableServer struct {
	refusal   string // the error member of all answers after a restart, except to ping
	restarted atomic.Bool
	lists     atomic.Int32
	calls     atomic.Int32
	listWorks bool
}

func (s *restartableServer) answer(method string) string {
	refused := s.restarted.Load()
	switch method {
	case "tools/list":
		s.lists.Add(1)
		if !refused || s.listWorks {
			return `"result":{"tools":[]}`
		}
	case "tools/call":
		s.calls.Add(1)
		if !refused {
			return `"result":{"content":[{"type":"text","text":"hello"}]}`
		}
	case "initialize":
		s.restarted.Store(false)
		return `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"forgetful","version":"1"}}`
	case "ping":
		return `"result":{}`
	default:
		return `"error":{"code":-32601,"message":"no such method"}`
	}
	return `"error":` + s.refusal
}

func (s *restartableServer) serve(_ context.Context, stdin io.ReadCloser, stdout io.WriteCloser, _ io.Writer) error {
	lines := bufio.NewScanner(stdin)
	for lines.Scan() {
		var m transporttest.ClientMessage
		if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		fmt.Fprintf(stdout, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, s.answer(m.Method))
	}
	return lines.Err()
}

func (s *restartableServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m transporttest.ClientMessage
	switch {
	case r.Method == http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case json.NewDecoder(r.Body).Decode(&m) != nil || m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	default:
		if m.Method == "initialize" {
			w.Header().Set("Mcp-Session-Id", "s")
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, s.answer(m.Method))
	}
}

// eachTransport runs a test over a pair of pipes and over HTTP.
func (s *restartableServer) eachTransport(t *testing.T, test func(t *testing.T, server *restartableServer, s transport.Session)) {
	t.Helper()
	newServer := func() *restartableServer { return &restartableServer{refusal: s.refusal, listWorks: s.listWorks} }
	t.Run("pipes", func(t *testing.T) {
		server := newServer()
		test(t, server, openPipes(t, server.serve))
	})
	t.Run("HTTP", func(t *testing.T) {
		server := newServer()
		_, addr := newClosableServer(t, "127.0.0.1:0", server)
		test(t, server, openSession(t, specFor("http://"+addr)))
	})
}

// A server that answers that it was never initialized ends its session, so that the server
// is started again.
func TestHandshakeLost(t *testing.T) {
	for name, refusal := range map[string]string{
		"usual":       `{"code":-32002,"message":"Server not initialized"}`,
		"with advice": `{"code":-32002,"message":"Server not initialized. Send 'initialize' first."}`,
		"been":        `{"code":-32600,"message":"Server has not been initialized."}`,
		"go-sdk":      `{"code":0,"message":"method \"tools/call\" is invalid during session initialization"}`,
		"Python":      `{"code":-32602,"message":"Invalid request parameters","data":""}`,
		"Python, old": `{"code":-32600,"message":"Received request before initialization was complete"}`,
	} {
		t.Run(name, func(t *testing.T) {
			(&restartableServer{refusal: refusal}).eachTransport(t, func(t *testing.T, server *restartableServer, s transport.Session) {
				_, err := s.Request(transporttest.Context(t), transport.Request{Method: "tools/list"})
				require.NoError(t, err)
				requireServing(t, s)
				server.restarted.Store(true)
				e := requireCallFails(t, s)
				require.Equal(t, mcpvisor.OutcomeAnswered, e.Outcome, "the error is the answer to the call")
				transporttest.RequireClosed(t, s.Dead(), "the session is alive without a handshake")
				require.Equal(t, supervisor.CauseClosed, s.Cause().Kind)
				require.Contains(t, s.Cause().Message, "restarted behind")
				require.EqualValues(t, 2, server.calls.Load(), "the call was repeated")
				transporttest.RequireClosed(t, s.Released(), "session is not released")
			})
		})
	}
}

// An error of a tool that reads like a lost handshake causes one tools/list, and no further
// one for some time.
func TestHandshakeLost_falseAlarm(t *testing.T) {
	rows := map[string]struct {
		refusal string
		lists   int32
	}{
		"a tool's own words":    {`{"code":-32000,"message":"database not initialized"}`, 2},
		"wrong parameters":      {`{"code":-32602,"message":"Invalid request parameters"}`, 2},
		"another error":         {`{"code":-32000,"message":"no"}`, 1},
		"wrong parameters, why": {`{"code":-32602,"message":"Invalid request parameters: path is missing"}`, 1},
	}
	for name, row := range rows {
		testutil.RunInBubble(t, name, func(t *testing.T) {
			server := &restartableServer{refusal: row.refusal, listWorks: true}
			s := openPipes(t, server.serve)
			_, err := s.Request(t.Context(), transport.Request{Method: "tools/list"})
			require.NoError(t, err)
			server.restarted.Store(true)
			for range 20 {
				requireCallFails(t, s)
				synctest.Wait()
			}
			require.Equal(t, row.lists, server.lists.Load())
			time.Sleep(time.Hour)
			requireCallFails(t, s)
			synctest.Wait()
			require.Equal(t, 2*row.lists-1, server.lists.Load(), "after some time the server is checked again")
			require.Nil(t, s.Cause())
			server.restarted.Store(false)
			requireServing(t, s)
		})
	}
}

// If no list request has ever succeeded, a failing list would prove nothing, so the server
// is not checked.
func TestHandshakeLost_noListBefore(t *testing.T) {
	(&restartableServer{refusal: `{"code":-32002,"message":"Server not initialized"}`}).eachTransport(t, func(t *testing.T, server *restartableServer, s transport.Session) {
		server.restarted.Store(true)
		for range 3 {
			requireCallFails(t, s)
		}
		_, err := s.Request(transporttest.Context(t), transport.Request{Method: "ping"})
		require.NoError(t, err)
		require.Zero(t, server.lists.Load())
		require.Nil(t, s.Cause())
	})
}
