package streamable

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/stdio"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

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
	s := openSession(t, echoSpec(web.Listener.Addr().String(), true))
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
			r.Header.Get("X-Longer"), id, helloResult)
	})
	s := newTestDialer(echoSpec(web.Listener.Addr().String(), true)).NewSession()
	transporttest.ReleaseAtEnd(t, s)
	notices := make(chan transport.Notice, 1)
	s.OnNotice(func(n transport.Notice) { notices <- n })
	require.NoError(t, s.Open(transporttest.Context(t)))
	requireServing(t, s)
	log := (<-notices).Log
	require.Contains(t, log.Text, "got ")
	requireNoEcho(t, log.Text+log.Logger)
}

// echoSecrets are the secrets of echoSpec. The server receives each in one form and
// repeats it in another.
var echoSecrets = []string{
	"canary-user", "canary-pass/word+1", "Y2FuYXJ5LXVzZXI6", // user:password, as Basic writes it
	"canary-query", "canary-token", "canary/slash", "canary\"quote", "canary-long", "canary-long-and-more",
	"-and-more", // remains if the shorter of two secrets is replaced first
}

// echoSpec returns a spec with secrets in headers, and with a login in the URL or a bearer
// token.
func echoSpec(addr string, login bool) mcpvisor.ServerSpec {
	spec := specFor("http://" + addr + "/mcp?key=canary-query")
	spec.HTTP.Headers = map[string]string{"X-Slash": "canary/slash", "X-Quote": `canary"quote`,
		"X-Long": "canary-long", "X-Longer": "canary-long-and-more"}
	if login {
		spec.HTTP.URL = "http://" + url.UserPassword("canary-user", "canary-pass/word+1").String() + "@" + addr + "/mcp?key=canary-query"
	} else {
		spec.HTTP.Headers["Authorization"] = "Bearer canary-token"
	}
	return spec
}

// receivedSecrets returns all secrets of a request as one text.
func receivedSecrets(r *http.Request) string {
	user, password, _ := r.BasicAuth()
	return strings.Join([]string{r.URL.String(), user, password, r.Header.Get("Authorization"), r.Header.Get("X-Slash"),
		r.Header.Get("X-Quote"), r.Header.Get("X-Long"), r.Header.Get("X-Longer")}, " ")
}

// escaped returns a text as JSON string, with slashes escaped as PHP does.
func escaped(text string) string {
	raw, _ := json.Marshal(text)
	return strings.ReplaceAll(string(raw), "/", `\/`)
}

// Credentials that a server repeats in any kind of reply do not appear in errors, causes
// and logs.
func TestSecrets_echoedByServer(t *testing.T) {
	respond := func(w http.ResponseWriter, code int, body string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
	rpc := func(r *http.Request, id json.RawMessage) string {
		text := receivedSecrets(r)
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32001,"message":%s,"data":{"k":[1,%s],%s:true}}}`,
			id, escaped("invalid: "+text), escaped(text), escaped("key "+text))
	}
	rows := map[string]handler{
		"error": func(w http.ResponseWriter, r *http.Request, id json.RawMessage) { respond(w, 200, rpc(r, id)) },
		"error with a status": func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			respond(w, 500, rpc(r, id))
		},
		"error without id": func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			respond(w, 400, rpc(r, json.RawMessage("null")))
		},
		"401 JSON-RPC": func(w http.ResponseWriter, r *http.Request, id json.RawMessage) { respond(w, 401, rpc(r, id)) },
		"401 text": func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			respond(w, 401, "bad credentials: "+receivedSecrets(r))
		},
		"long text": func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			respond(w, 400, strings.Repeat("x", 185)+" "+r.Header.Get("Authorization")) // the part that an error shows ends inside the secret
		},
		"long JSON": func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			respond(w, 400, `{"message":`+escaped(strings.Repeat("x", 185)+" "+r.Header.Get("Authorization"))+`}`)
		},
		"bare string": func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			respond(w, 200, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%s}`, id, escaped(receivedSecrets(r))))
		},
		"event": func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			startEvents(w)("data: %s\n\n", rpc(r, id))
		},
		"redirect": func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			w.Header().Set("Location", "http://elsewhere.invalid/"+r.Header.Get("X-Longer")+"/"+r.Header.Get("Authorization"))
			w.WriteHeader(307)
		},
		"invalid HTTP": func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
				fmt.Fprintf(conn, "NO %s\r\n\r\n", receivedSecrets(r))
				_ = conn.Close()
			}
		},
	}
	for name, reply := range rows {
		for _, login := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, login %v", name, login), func(t *testing.T) {
				web := newHTTPServer(t)
				var log testutil.LockedBuffer
				d := NewDialer(echoSpec(web.Listener.Addr().String(), login).WithDefaults(),
					transport.Options{ClientInfo: transporttest.ClientInfo, Logger: zerolog.New(&log).Level(zerolog.TraceLevel)})
				web.handle("GET", reply)
				web.handle("notifications/initialized", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
					respond(w, 400, receivedSecrets(r))
				})
				s := transporttest.OpenSession(t, d)
				web.handle("tools/call", reply)
				e := requireCallFails(t, s)
				requireNoEcho(t, allTexts(e))
				if rpc := new(sdkrpc.Error); errors.As(e, &rpc) {
					requireNoEcho(t, string(rpc.Data)+" "+rpc.Message)
					require.True(t, len(rpc.Data) == 0 || json.Valid(rpc.Data))
					require.Contains(t, rpc.Message, "***")
				}

				web.handle("initialize", reply)
				failing := d.NewSession()
				err := failing.Open(transporttest.Context(t))
				require.Error(t, err)
				requireNoEcho(t, allTexts(err))
				transporttest.RequireClosed(t, failing.Released(), "session is not released")
				requireNoEcho(t, log.String()+" ")
			})
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	requireNoEcho(t, allTexts(requireOpenFails(t, echoSpec(l.Addr().String(), true))))
}

// requireNoEcho asserts that a text contains none of echoSecrets.
func requireNoEcho(t *testing.T, text string) {
	t.Helper()
	require.NotEmpty(t, text)
	for _, secret := range echoSecrets {
		require.NotContains(t, text, secret)
		require.NotContains(t, text, strings.ReplaceAll(secret, "/", `\/`))
		require.NotContains(t, text, strings.ReplaceAll(secret, `"`, `\"`))
	}
	for i := len("canary"); i < len("canary-token"); i++ { // no beginning of a secret where a text was cut
		require.NotContains(t, text, "canary-token"[:i]+"…")
	}
}

// The data of an error without a secret is kept byte for byte.
func TestSecrets_errorDataVerbatim(t *testing.T) {
	const data = `{"b":1.50, "a":"\u00e9\/ \u001b[0m", "a":12345678901234567890}`
	web := newHTTPServer(t)
	web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"m","data":%s}}`, id, data)
	})
	rpc := testutil.AsError[*sdkrpc.Error](t, requireCallFails(t, openSession(t, echoSpec(web.Listener.Addr().String(), true))))
	require.Equal(t, data, string(rpc.Data))
}

// LastReceived has a monotonic reading, so that a change of the wall clock does not matter.
// Virtual time has no monotonic reading, so this test runs in real time.
func TestLastReceived_monotonic(t *testing.T) {
	for name, d := range map[string]transport.Dialer{
		"memory": stdio.NewDialer(mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})}, transporttest.MemoryOptions),
		"HTTP":   newTestDialer(newMemoryTransport(t).spec()),
	} {
		s := d.NewSession()
		require.Zero(t, s.LastReceived(), name)
		began := time.Now()
		require.NoError(t, s.Open(t.Context()))
		received := s.LastReceived()
		require.Contains(t, received.String(), " m=+", "%s: a monotonic reading", name)
		require.False(t, received.Before(began), name)
		require.False(t, received.After(time.Now()), name)
		s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
		<-s.Released()
	}
}

// LastReceived is updated by an answer, and by progress of a request. A header, a comment, a
// message on another stream and an error page do not show that the server answers requests.
func TestLastReceived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := newMemoryTransport(t)
		step := make(chan string)
		web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			send := startEvents(w)
			for text := range step {
				send(text+"\n\n", id)
			}
			writeResult(w, id, "{}")
		})
		web.handle("ping", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			time.Sleep(time.Millisecond) // the check of the session, after a refused request
			writeResult(w, id, "{}")
		})
		web.handle("prompts/list", replyStatus(500, "text/plain", "no"))
		web.handle("resources/list", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			w.WriteHeader(http.StatusBadGateway)
			writeError(w, id, -32000, "no backend")
		})
		s := openSession(t, web.spec())
		time.Sleep(time.Minute)
		opened := s.LastReceived()
		ended := make(chan error, 1)
		call := transporttest.ToolCall
		call.Track = true
		go func() { _, err := s.Request(t.Context(), call); ended <- err }()
		for _, text := range []string{": %s", `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%s}}`, `data: {"jsonrpc":"2.0","id":"other %s","result":{}}`} {
			step <- text
			time.Sleep(time.Second)
			require.True(t, s.LastReceived().Equal(opened), text)
		}
		for _, method := range []string{"prompts/list", "resources/list"} {
			_, err := s.Request(t.Context(), transport.Request{Method: method})
			require.Error(t, err)
			require.True(t, s.LastReceived().Equal(opened), method)
			time.Sleep(time.Minute) // and the check of the session is over
			opened = s.LastReceived()
		}
		step <- `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`
		synctest.Wait()
		require.True(t, s.LastReceived().Equal(time.Now()), "progress")
		step <- `data: {"jsonrpc":"2.0","id":%s,"result":{}}`
		time.Sleep(time.Second)
		require.NoError(t, <-ended)
		require.True(t, s.LastReceived().Equal(time.Now().Add(-time.Second)), "the answer")
		close(step)
	})
}
