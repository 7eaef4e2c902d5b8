package streamable

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

func TestSessionLost_endsSession(t *testing.T) {
	rows := map[string]handler{
		"404":          replyStatus(404, "text/plain", "not found"),
		"404 JSON-RPC": replyStatus(404, "application/json", `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`),
		"400 text":     replyStatus(400, "text/plain", "Bad Request: Invalid session ID"),
		"400 JSON-RPC": replyStatus(400, "application/json", `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`),
		"400 python":   replyStatus(400, "application/json", `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad Request: No valid session ID provided"}}`),
		"404 with another id": func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
			w.WriteHeader(404)
			writeError(w, json.RawMessage("5"), -32001, "Session not found")
		},
		"400 not initialized": replyStatus(400, "application/json", `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}`),
	}
	for name, reply := range rows {
		t.Run(name, func(t *testing.T) {
			web := newHTTPServer(t)
			s := openSession(t, specFor(web.URL))
			requireServing(t, s)
			web.handle("tools/call", reply)
			e := requireCallFails(t, s)
			require.Equal(t, mcpvisor.KindCrashed, e.Kind, e.Error())
			require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
			require.ErrorContains(t, e, "forgot the session")
			transporttest.RequireClosed(t, s.Dead(), "the session continues")
			require.Equal(t, supervisor.CauseClosed, s.Cause().Kind)
			transporttest.RequireClosed(t, s.Released(), "session is not released")
			require.Empty(t, web.requests("DELETE"), "there is nothing to delete")
		})
	}
}

// If the server keeps no session, a 404 fails only the call.
func TestSessionLost_withoutSession(t *testing.T) {
	web := newHTTPServer(t)
	web.session = ""
	web.handle("tools/call", firstTime(replyStatus(404, "", "")))
	s := openSession(t, specFor(web.URL))
	require.Equal(t, mcpvisor.KindProtocol, requireCallFails(t, s).Kind)
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

func TestServerGone(t *testing.T) {
	web := newHTTPServer(t)
	server, addr := newClosableServer(t, "127.0.0.1:0", web)
	s := openSession(t, specFor("http://"+addr))
	requireServing(t, s)
	require.NoError(t, server.Close())
	e := requireCallFails(t, s)
	require.Equal(t, mcpvisor.KindCrashed, e.Kind, e.Error())
	require.ErrorContains(t, e, "nothing listens at "+addr)
	require.Equal(t, supervisor.CauseClosed, s.Cause().Kind)
	transporttest.RequireClosed(t, s.Released(), "session is not released")
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
		var e *mcpvisor.Error
		require.ErrorAs(t, <-failed, &e)
		require.Equal(t, mcpvisor.KindCrashed, e.Kind, e.Error())
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

func TestServerRestarted_samePort(t *testing.T) {
	first := newHTTPServer(t)
	server, addr := newClosableServer(t, "127.0.0.1:0", first)
	d := newTestDialer(specFor("http://" + addr))
	s := d.NewSession()
	transporttest.ReleaseAtEnd(t, s)
	require.NoError(t, s.Open(transporttest.Context(t)))
	requireServing(t, s)
	require.NoError(t, server.Close())

	second := newHTTPServer(t)
	second.session = "session-2"
	for _, what := range []string{"tools/call", "ping"} {
		second.handle(what, func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			if r.Header.Get("Mcp-Session-Id") != "session-2" {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			writeResult(w, id, `{"content":[{"type":"text","text":"hello again"}]}`)
		})
	}
	newClosableServer(t, addr, second)
	// The call may or may not be written on an old connection. In both cases the session is
	// lost.
	e := requireCallFails(t, s)
	require.Equal(t, mcpvisor.KindCrashed, e.Kind, e.Error())
	require.ErrorContains(t, e, "forgot the session")
	transporttest.RequireClosed(t, s.Released(), "session is not released")

	again := d.NewSession()
	transporttest.ReleaseAtEnd(t, again)
	require.NoError(t, again.Open(transporttest.Context(t)))
	requireServing(t, again)
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
	require.Zero(t, s.server.endpoint.OpenConns())
}

func TestDelete_hangs(t *testing.T) {
	web := newHTTPServer(t)
	web.handle("DELETE", func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) { web.hang(r) })
	spec := specFor(web.URL)
	spec.Timeouts.Shutdown = 50 * time.Millisecond
	s := openSession(t, spec)
	s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
	start := time.Now()
	transporttest.RequireClosed(t, s.Released(), "session is not released")
	require.Less(t, time.Since(start), 4*time.Second, "the release waited for the limit of the go-sdk, 5 s")
	require.Len(t, web.requests("DELETE"), 1)
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
