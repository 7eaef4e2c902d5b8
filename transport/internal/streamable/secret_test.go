package streamable

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// canaries are the secrets of secretSpec. No error and no log may contain them.
var canaries = []string{"canary-user", "canary-password", "canary-query", "canary-header", "canary-token"}

// secretSpec returns a spec with secrets in its URL and headers.
func secretSpec(addr string) mcpvisor.ServerSpec {
	spec := specFor("http://canary-user:canary-password@" + addr + "/mcp?key=canary-query#canary-user")
	spec.HTTP.Headers = map[string]string{"X-Key": "canary-header", "Authorization": "Bearer canary-token"}
	return spec
}

// allTexts returns the texts of an error and of all errors that it wraps.
func allTexts(err error) string {
	var b strings.Builder
	for err != nil {
		fmt.Fprintf(&b, "%v\n", err)
		var c *supervisor.Cause
		if errors.As(err, &c) {
			text, _ := json.Marshal(c)
			b.Write(text)
			b.WriteString(c.Describe())
		}
		err = errors.Unwrap(err)
	}
	return b.String()
}

// requireNoCanary asserts that a text contains none of canaries.
func requireNoCanary(t *testing.T, text string) {
	t.Helper()
	require.NotEmpty(t, text)
	for _, canary := range canaries {
		require.NotContains(t, text, canary)
	}
}

func TestSecrets_notInErrorsAndLogs(t *testing.T) {
	// echo makes a handler that repeats the secrets of the request.
	echo := func(code int) handler {
		return func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			w.WriteHeader(code)
			fmt.Fprintf(w, "refused: %s %s %s", r.URL, r.Header.Get("X-Key"), r.Header.Get("Authorization"))
		}
	}
	redirect := func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		http.Redirect(w, r, "http://canary-user:canary-password@elsewhere.invalid/x?"+r.URL.RawQuery, http.StatusTemporaryRedirect)
	}
	replies := map[string]handler{"401": echo(401), "400": echo(400), "404": echo(404), "502": echo(502), "redirect": redirect,
		"hang up": func(http.ResponseWriter, *http.Request, json.RawMessage) { panic(http.ErrAbortHandler) },
		"html":    replyStatus(200, "text/html", "<html>")}
	for name, reply := range replies {
		t.Run(name, func(t *testing.T) {
			web := newHTTPServer(t)
			var log testutil.LockedBuffer
			d := NewDialer(secretSpec(web.Listener.Addr().String()).WithDefaults(),
				transport.Options{ClientInfo: transporttest.ClientInfo, Logger: zerolog.New(&log).Level(zerolog.TraceLevel)})
			web.handle("GET", echo(403))

			s := d.NewSession()
			transporttest.ReleaseAtEnd(t, s)
			require.NoError(t, s.Open(transporttest.Context(t)))
			require.Equal(t, "canary-header", web.requests("initialize")[0].header.Get("X-Key"), "the spec contains no secret")
			require.Equal(t, "Bearer canary-token", web.requests("initialize")[0].header.Get("Authorization"))
			web.handle("tools/call", reply)
			requireNoCanary(t, allTexts(requireCallFails(t, s)))
			if cause := s.Cause(); cause != nil {
				requireNoCanary(t, allTexts(cause))
			}

			web.handle("initialize", reply)
			failing := d.NewSession()
			err := failing.Open(transporttest.Context(t))
			require.Error(t, err)
			requireNoCanary(t, allTexts(err))
			transporttest.RequireClosed(t, failing.Released(), "session is not released")
			requireNoCanary(t, log.String()+" ")
			require.NotEmpty(t, log.String(), "the rejected stream is logged")
		})
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	requireNoCanary(t, allTexts(requireOpenFails(t, secretSpec(l.Addr().String()))))
}

// Headers are sent only to the origin of the endpoint: a redirect to another origin is not
// followed.
func TestHeaders_stayAtOrigin(t *testing.T) {
	web := newHTTPServer(t)
	requested := make(chan struct{}, 8)
	foreign := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requested <- struct{}{} }))
	t.Cleanup(foreign.Close)
	for _, what := range []string{"tools/call", "GET", "DELETE"} {
		web.handle(what, func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			http.Redirect(w, r, foreign.URL, http.StatusTemporaryRedirect)
		})
	}
	s := openSession(t, secretSpec(web.Listener.Addr().String()))
	e := requireCallFails(t, s)
	require.ErrorContains(t, e, "redirects to "+foreign.URL)
	s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
	transporttest.RequireClosed(t, s.Released(), "session is not released")
	require.Empty(t, requested)
}

// Secrets that a server repeats in a notification are removed from the Notice.
func TestSecrets_inNotices(t *testing.T) {
	web := newHTTPServer(t)
	web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `[{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"%[1]s","data":"got %[1]s"}},{"jsonrpc":"2.0","id":%[2]s,"result":%[3]s}]`,
			r.Header.Get("X-Key"), id, helloResult)
	})
	s := newTestDialer(secretSpec(web.Listener.Addr().String())).NewSession()
	transporttest.ReleaseAtEnd(t, s)
	notices := make(chan transport.Notice, 1)
	s.OnNotice(func(n transport.Notice) { notices <- n })
	require.NoError(t, s.Open(transporttest.Context(t)))
	requireServing(t, s)
	log := (<-notices).Log
	require.Contains(t, log.Text, "got ")
	requireNoCanary(t, log.Text+log.Logger)
}
