package streamable

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

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
		says      []string
	}{
		{"401", replyStatus(401, "text/plain", "who are you\n"), supervisor.CauseAuth, true, []string{"HTTP 401", "who are you", "headers"}},
		{"403 JSON", replyStatus(403, "application/json", `{"error":"insufficient_scope","error_description":"not you"}`), supervisor.CauseAuth, true, []string{"HTTP 403", "not you"}},
		{"407", replyStatus(407, "", ""), supervisor.CauseAuth, true, []string{"HTTP 407"}},
		{"404", replyStatus(404, "text/plain", "404 page not found"), supervisor.CauseHandshake, false, []string{"HTTP 404", " at http://127.0.0.1:", "check the path of the URL"}},
		{"405", replyStatus(405, "", ""), supervisor.CauseHandshake, false, []string{"HTTP 405"}},
		{"500 web page", replyStatus(500, "text/html", page), supervisor.CauseHandshake, false, []string{"HTTP 500"}},
		{"503", replyStatus(503, "text/plain", "starting"), supervisor.CauseHandshake, false, []string{"HTTP 503", "starting"}},
		{"200 web page", replyStatus(200, "text/html", page), supervisor.CauseHandshake, false, []string{"not an MCP endpoint"}},
		{"200 web page in disguise", replyStatus(200, "", page), supervisor.CauseHandshake, false, []string{"not an MCP endpoint"}},
		{"empty 202", replyStatus(202, "", ""), supervisor.CauseHandshake, false, []string{"did not answer"}},
		{"truncated", replyStatus(200, "application/json", `{"jsonrpc":"2.0","id":1,"resu`), supervisor.CauseHandshake, false, []string{"not valid JSON"}},
		{"other version", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			writeResult(w, id, `{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{"name":"x","version":"1"}}`)
		}, supervisor.CauseVersion, true, []string{"no protocol version in common"}},
		{"JSON-RPC error", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			writeError(w, id, -32603, "no licence")
		}, supervisor.CauseHandshake, false, []string{"no licence"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			web := newHTTPServer(t)
			web.handle("initialize", row.reply)
			cause := requireOpenFails(t, specFor(web.URL))
			require.Equal(t, row.kind, cause.Kind, cause.Message)
			require.Equal(t, row.permanent, cause.Permanent)
			for _, text := range row.says {
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

func TestOpen_discoverHangs(t *testing.T) {
	web := newHTTPServer(t)
	web.handle("server/discover", func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) { web.hang(r) })
	spec := specFor(web.URL)
	spec.Timeouts.Negotiate = 50 * time.Millisecond
	s := openSession(t, spec)
	require.Equal(t, mcpvisor.EraLegacy, s.Info().Era)
	requireServing(t, s)
}

func TestOpen_discoverRefused(t *testing.T) {
	for _, reply := range []handler{
		replyStatus(400, "text/plain", "Bad Request: no session"), replyStatus(404, "", ""), replyStatus(405, "", ""),
		replyStatus(500, "text/html", "<html>"), replyStatus(200, "text/html", "<html>"), replyStatus(202, "", ""),
		func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Server not initialized"}}`)
		},
		func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) { writeResult(w, id, `null`) },
		func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
			fmt.Fprint(w, `{"id":null,"error":"nonsense"}`)
		},
	} {
		web := newHTTPServer(t)
		web.handle("server/discover", reply)
		requireServing(t, openSession(t, specFor(web.URL)))
	}
}

// What stands before a server may ask to come again; that says nothing about the
// protocol.
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

// An older version is remembered only if the server has declined the newer one.
func TestOpen_eraUncertain(t *testing.T) {
	for name, c := range map[string]struct {
		reply handler
		asked int
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
		require.Len(t, web.requests("server/discover"), c.asked, name)
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

func TestOpen_bounded(t *testing.T) {
	web := newHTTPServer(t)
	web.handle("initialize", func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) { web.hang(r) })
	spec := specFor(web.URL)
	spec.Era = mcpvisor.EraLegacy
	s := newTestDialer(spec).NewSession()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	require.Error(t, s.Open(ctx))
	require.Equal(t, supervisor.CauseTimeout, s.Cause().Kind)
	transporttest.RequireClosed(t, s.Released(), "session is not released")
}

// Some servers send no header on the event stream before the first event.
func TestOpen_stalledStream(t *testing.T) {
	web := newHTTPServer(t)
	asked := make(chan struct{}, 8)
	web.handle("GET", func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		asked <- struct{}{}
		web.hang(r)
	})
	spec := specFor(web.URL)
	spec.Timeouts.Negotiate = 50 * time.Millisecond
	s := openSession(t, spec)
	requireServing(t, s)
	<-asked
}

func TestOpen_streamRefused(t *testing.T) {
	for _, reply := range []handler{
		replyStatus(404, "text/plain", "session what?"), replyStatus(400, "text/plain", "no session"), replyStatus(401, "", ""),
		replyStatus(200, "text/html", "<html>"), replyStatus(503, "", ""), replyStatus(500, "", ""), replyStatus(204, "", ""),
	} {
		web := newHTTPServer(t)
		web.handle("GET", reply)
		requireServing(t, openSession(t, specFor(web.URL)))
	}
}

func TestOpen_notificationRefused(t *testing.T) {
	web := newHTTPServer(t)
	web.handle("notifications/initialized", replyStatus(500, "text/html", "<html>"))
	requireServing(t, openSession(t, specFor(web.URL)))

	web = newHTTPServer(t)
	web.handle("notifications/initialized", replyStatus(401, "", ""))
	require.Equal(t, supervisor.CauseAuth, requireOpenFails(t, specFor(web.URL)).Kind)

	web = newHTTPServer(t)
	web.handle("notifications/initialized", replyStatus(404, "", ""))
	cause := requireOpenFails(t, specFor(web.URL))
	require.Equal(t, supervisor.CauseClosed, cause.Kind)
	require.Contains(t, cause.Message, "forgot the session")
}

func TestAbort_beforeAndDuringOpen(t *testing.T) {
	web := newHTTPServer(t)
	asked := make(chan struct{}, 8)
	web.handle("initialize", func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		asked <- struct{}{}
		web.hang(r)
	})
	why := &supervisor.Cause{Kind: supervisor.CauseRequested, Message: "enough"}

	s := newTestDialer(specFor(web.URL)).NewSession()
	s.Abort(why)
	transporttest.RequireClosed(t, s.Released(), "a session that was never opened is not released")
	require.ErrorIs(t, s.Open(transporttest.Context(t)), why)

	s = newTestDialer(specFor(web.URL)).NewSession()
	opened := make(chan error, 1)
	go func() { opened <- s.Open(context.Background()) }()
	<-asked
	s.Abort(why)
	require.ErrorIs(t, <-opened, why)
	transporttest.RequireClosed(t, s.Released(), "an interrupted session is not released")

	_, err := s.Request(transporttest.Context(t), transporttest.ToolCall)
	require.ErrorIs(t, err, mcpvisor.ErrClosed)
}

// The politeness after a failed start is not the caller's to wait for.
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

// The last error explains a failed start, and not an earlier one.
func TestOpen_lastErrorExplains(t *testing.T) {
	web := newHTTPServer(t)
	web.handle("server/discover", replyStatus(500, "", ""))
	web.handle("initialize", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		writeResult(w, id, `{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{"name":"x","version":"1"}}`)
	})
	cause := requireOpenFails(t, specFor(web.URL))
	require.Equal(t, supervisor.CauseVersion, cause.Kind, cause.Message)
}
