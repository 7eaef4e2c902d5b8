package streamable

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// echoSecrets are the secrets of echoSpec. The server receives each in one form and
// repeats it in another.
var echoSecrets = []string{
	"canary-user", "canary-pass/word+1", "Y2FuYXJ5LXVzZXI6", // user:password, as Basic writes it
	"canary-token", "canary/slash", "canary\"quote", "canary-long", "canary-long-and-more",
	"-and-more", // remains if the shorter of two secrets is replaced first
}

// echoSpec returns a spec with secrets in headers, and with a login in the URL or a bearer
// token.
func echoSpec(addr string, login bool) mcpvisor.ServerSpec {
	spec := specFor("http://" + addr + "/mcp")
	spec.HTTP.Headers = map[string]string{"X-Slash": "canary/slash", "X-Quote": `canary"quote`,
		"X-Long": "canary-long", "X-Longer": "canary-long-and-more"}
	if login {
		spec.HTTP.URL = "http://" + url.UserPassword("canary-user", "canary-pass/word+1").String() + "@" + addr + "/mcp"
	} else {
		spec.HTTP.Headers["Authorization"] = "Bearer canary-token"
	}
	return spec
}

// receivedSecrets returns all secrets of a request as one text.
func receivedSecrets(r *http.Request) string {
	user, password, _ := r.BasicAuth()
	return strings.Join([]string{user, password, r.Header.Get("Authorization"), r.Header.Get("X-Slash"),
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
				s := d.NewSession()
				transporttest.ReleaseAtEnd(t, s)
				require.NoError(t, s.Open(transporttest.Context(t)))
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
	var rpc *sdkrpc.Error
	require.ErrorAs(t, requireCallFails(t, openSession(t, echoSpec(web.Listener.Addr().String(), true))), &rpc)
	require.Equal(t, data, string(rpc.Data))
}
