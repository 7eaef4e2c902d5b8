package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/cookiejar"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// A server that was modern is waited for, though it starts more slowly than one
// that is not known would be; and it may have become a legacy one.
func TestEra_remembered(t *testing.T) {
	rows := map[string]struct {
		discover handler
		want     mcpvisor.Era
	}{
		"slow": {func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			time.Sleep(2 * mcpvisor.DefaultNegotiateTimeout)
			replyModern(w, r, id)
		}, mcpvisor.EraModern},
		"legacy now":            {nil, mcpvisor.EraLegacy},
		"broken, speaks legacy": {replyStatus(500, "", ""), mcpvisor.EraLegacy},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			transporttest.InBubble(t, func(t *testing.T) {
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
		})
	}
}

// What is remembered of a server is given up when it may be the reason why
// a session could not be opened, and only then.
func TestEra_forgotten(t *testing.T) {
	never := func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) { <-r.Context().Done() }
	rows := map[string]struct {
		reply    handler
		fails    error // of the connection
		canceled bool
		kind     supervisor.CauseKind
		want     mcpvisor.Era
	}{
		"refused":  {replyStatus(500, "", ""), nil, false, supervisor.CauseHandshake, mcpvisor.EraAuto},
		"silent":   {never, nil, false, supervisor.CauseTimeout, mcpvisor.EraAuto},
		"canceled": {never, nil, true, supervisor.CauseRequested, mcpvisor.EraModern},
		"away":     {nil, &net.OpError{Op: "dial", Err: errors.New("no route to host")}, false, supervisor.CauseSpawn, mcpvisor.EraModern},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			transporttest.InBubble(t, func(t *testing.T) {
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
				d.rememberEra(mcpvisor.EraModern)
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
		})
	}
}

// Only an answer that is about the protocol proves that a server is not modern.
func TestOpen_modernEraRefused(t *testing.T) {
	for code, permanent := range map[int]bool{400: true, 405: true, 404: false, 500: false, 503: false} {
		transporttest.InBubble(t, func(t *testing.T) {
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

// An opening ends with its context, though a RoundTripper of the host's does
// not, and says so, whatever went wrong before. The release waits for it as long as
// Timeouts.Shutdown allows.
func TestOpen_endsWithContext(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		web := newMemoryTransport(t)
		web.handle("server/discover", replyStatus(500, "", ""))
		free := make(chan struct{})
		spec := web.spec()
		spec.HTTP.Client = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Header.Get("Mcp-Method") == "" && r.Method == http.MethodPost && len(web.requests("server/discover")) > 0 {
				<-free
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
		require.LessOrEqual(t, time.Since(began), time.Second+2*mcpvisor.DefaultShutdownTimeout)
		require.Equal(t, 1, s.Info().AbandonedRequests)
		close(free)
		synctest.Wait()
		require.Zero(t, s.Info().AbandonedRequests)
	})
}

// A stream without a header holds up the opening for a moment, not for as long
// as negotiation may take.
func TestOpen_stalledStreamBounded(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		web := newMemoryTransport(t)
		web.handle("GET", func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) { <-r.Context().Done() })
		spec := web.spec()
		spec.Timeouts.Negotiate = time.Hour
		began := time.Now()
		openInMemory(t, spec)
		require.Equal(t, 2*time.Second, time.Since(began))
	})
}

// A URL that cannot be read is no better at the next attempt.
func TestOpen_invalidURL(t *testing.T) {
	cause := requireOpenFails(t, specFor("http://host:port/mcp"))
	require.Equal(t, supervisor.CauseConfig, cause.Kind)
	require.True(t, cause.Permanent)
}

// What a host's RoundTripper and cookie jar do is theirs: a panic costs one
// request, a header that is written to is a copy, and cookies are kept.
func TestHostClient_cookiesAndHeaders(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		web := newMemoryTransport(t)
		web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			http.SetCookie(w, &http.Cookie{Name: "seat", Value: "12"})
			writeResult(w, id, helloResult)
		})
		panics := false
		spec := web.spec()
		jar, err := cookiejar.New(nil)
		require.NoError(t, err)
		spec.HTTP.Client.Jar = jar
		spec.HTTP.Client.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			if panics {
				panics = false
				panic("a bug of the host's")
			}
			require.Empty(t, r.Header.Get("X-Trace"), "the header is another request's too")
			r.Header.Set("X-Trace", "1")
			return web.RoundTrip(r)
		})
		s := openInMemory(t, spec)
		requireServing(t, s)
		panics = true
		e := requireCallFails(t, s)
		require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
		require.ErrorContains(t, e, "panicked")
		requireServing(t, s)
		calls := web.requests("tools/call")
		require.Empty(t, calls[0].header.Get("Cookie"))
		require.Equal(t, "seat=12", calls[1].header.Get("Cookie"))
	})
}

// The user of a URL becomes the Basic scheme; headers that belong to the
// protocol cannot be set.
func TestHeaders_ofSpecification(t *testing.T) {
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
