//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/oidcauth/oidctest"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// witness is an MCP server over HTTP that keeps what it was sent.
type witness struct {
	url string
	mu  sync.Mutex
	all strings.Builder
}

func newWitness(t *testing.T) *witness {
	t.Helper()
	r := &witness{}
	server := mcptest.NewHTTP(mcptest.Script{})
	t.Cleanup(server.Close)
	target, err := url.Parse(server.URL)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Transport: once.Transport, Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(target)
		p.Out.URL.Path = target.Path
		body, _ := io.ReadAll(p.In.Body)
		p.Out.Body = io.NopCloser(bytes.NewReader(body))
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all.WriteString(p.In.URL.String() + "\n")
		_ = p.In.Header.Write(&r.all)
		r.all.Write(body)
	}}
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)
	r.url = front.URL
	return r
}

func (r *witness) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all.String()
}

// once is a client that keeps no connection.
var once = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

const modernPing = `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`

// send sends a request of 2026-07-28, and returns its answer.
func send(t *testing.T, address, token string, change func(*http.Request)) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(modernPing))
	require.NoError(t, err)
	for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "server/discover"} {
		r.Header.Set(name, value)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if change != nil {
		change(r)
	}
	response, err := once.Do(r)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	response.Body = io.NopCloser(bytes.NewReader(text))
	return response
}

// sendLegacy sends a request of 2025-11-25, in a session unless that is empty.
func sendLegacy(t *testing.T, method, address, token, session, body string) *http.Response {
	t.Helper()
	return send(t, address, token, func(r *http.Request) {
		r.Method = method
		r.Header.Del("Mcp-Protocol-Version")
		r.Header.Del("Mcp-Method")
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	})
}

// A run accepts the tokens of an issuer, tells clients where they get one, and passes none of them on.
func TestRun_oidc(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", t.TempDir())
	issuer, upstream := oidctest.New(t), newWitness(t)
	b := startRun(t, map[string]any{"fixture": map[string]any{"url": upstream.url}}, "run", "--mcp", "127.0.0.1:0", "--mcp-url", "https://mcp.example.com/mcp",
		"--mcp-oidc-issuer", issuer.URL, "--mcp-oidc-audience", oidctest.Audience, "--mcp-oidc-scope", "mcp")
	address := mcpURL(b)
	b.await(" ready: ")
	b.drain()
	token := func(changes map[string]any) string {
		claims := map[string]any{"scope": "openid mcp"}
		for name, value := range changes {
			claims[name] = value
		}
		return issuer.Token(claims)
	}
	good := token(nil)
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for _, row := range []struct {
		name, token string
		change      func(*http.Request)
		status      int
	}{
		{"good", good, nil, http.StatusOK},
		{"under its public name", good, func(r *http.Request) { r.Host = "mcp.example.com" }, http.StatusOK},
		{"no token", "", nil, http.StatusUnauthorized},
		{"wrong audience", token(map[string]any{"aud": "other"}), nil, http.StatusUnauthorized},
		{"not a token", "x", nil, http.StatusUnauthorized},
		{"in the address", "", func(r *http.Request) { r.URL.RawQuery = "access_token=" + good }, http.StatusUnauthorized},
		{"without the scope", issuer.Token(map[string]any{"scope": "openid"}), nil, http.StatusForbidden},
		{"evil Host", good, func(r *http.Request) { r.Host = "evil.example" }, http.StatusForbidden},
		{"evil Origin", good, header("Origin", "https://evil.example"), http.StatusForbidden},
		{"Origin null", good, header("Origin", "null"), http.StatusForbidden},
	} {
		t.Run(row.name, func(t *testing.T) {
			response := send(t, address, row.token, row.change)
			require.Equal(t, row.status, response.StatusCode)
			if row.status == http.StatusUnauthorized {
				require.Equal(t, `Bearer resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp", scope="mcp"`, response.Header.Get("WWW-Authenticate"))
			}
		})
	}

	for path, resource := range map[string]string{"": "https://mcp.example.com/mcp", "/mcp": "https://mcp.example.com/mcp", "/mcp/review": "https://mcp.example.com/mcp/review"} {
		response, err := once.Get(strings.TrimSuffix(address, "/mcp") + "/.well-known/oauth-protected-resource" + path)
		require.NoError(t, err)
		var said struct {
			Resource string   `json:"resource"`
			Servers  []string `json:"authorization_servers"`
		}
		require.NoError(t, json.NewDecoder(response.Body).Decode(&said))
		_ = response.Body.Close()
		require.Equal(t, resource, said.Resource)
		require.Equal(t, []string{issuer.URL}, said.Servers)
	}

	session, err := connect(t, address, good)
	require.NoError(t, err)
	echo(t, session, "with a token of the issuer")

	// The session of alice is not known to bob.
	legacy := func(token, id, body string) *http.Response {
		return sendLegacy(t, http.MethodPost, address, token, id, body)
	}
	id := legacy(good, "", initialize).Header.Get("Mcp-Session-Id")
	require.NotEmpty(t, id)
	ping := `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	require.Equal(t, http.StatusOK, legacy(token(nil), id, ping).StatusCode, "another token of alice")
	require.Equal(t, http.StatusNotFound, legacy(token(map[string]any{"sub": "bob"}), id, ping).StatusCode)

	issuer.Rotate("second")
	require.Equal(t, http.StatusOK, send(t, address, token(nil), nil).StatusCode, "a new key of the issuer")
	issuer.Down.Store(true)
	require.Equal(t, http.StatusOK, send(t, address, token(nil), nil).StatusCode, "its keys are known")

	sent := upstream.text()
	require.Contains(t, sent, "with a token of the issuer", "the server was called")
	require.NotContains(t, sent, good)
	require.NotContains(t, sent, strings.Split(good, ".")[2])
	require.NotContains(t, sent, "Authorization")
	require.NoError(t, session.Close())
	http.DefaultClient.CloseIdleConnections()
}

// The row access/audience of the hostile hosts with a real issuer: a token that it has signed for another server opens
// nothing, in no way to use the endpoint, and reaches no server. A session that exists stays as it is.
func TestHostileOIDC_access_audience(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", t.TempDir())
	issuer, upstream := oidctest.New(t), newWitness(t)
	b := startRun(t, map[string]any{"fixture": map[string]any{"url": upstream.url}}, "run", "--mcp", "127.0.0.1:0", "--mcp-oidc-issuer", issuer.URL, "--mcp-oidc-audience", oidctest.Audience)
	address := mcpURL(b)
	b.await(" ready: ")
	b.drain()
	const call = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"fixture__echo","arguments":{"text":"%s"}}}`
	request := func(method, token, session, body string) *http.Response {
		return sendLegacy(t, method, address, token, session, body)
	}
	good := issuer.Token(nil)
	session := request(http.MethodPost, good, "", initialize).Header.Get("Mcp-Session-Id")
	require.NotEmpty(t, session)
	for name, audience := range map[string]any{
		"another": "https://other.example.com/mcp", "several others": []string{"other", "https://other.example.com"}, "none": nil, "empty": "", "no list": []string{},
		"a part": oidctest.Audience[1:], "more": oidctest.Audience + "/", "in another case": strings.ToUpper(oidctest.Audience),
		"a number": 7, "an object": map[string]any{oidctest.Audience: true}, "in one text": oidctest.Audience + " other",
	} {
		t.Run(name, func(t *testing.T) {
			token := issuer.Token(map[string]any{"aud": audience, "azp": oidctest.Audience, "client_id": oidctest.Audience})
			for _, response := range []*http.Response{
				send(t, address, token, nil),
				request(http.MethodPost, token, "", initialize),
				request(http.MethodPost, token, session, fmt.Sprintf(call, "of a wrong audience")),
				request(http.MethodGet, token, session, ""),
				request(http.MethodDelete, token, session, ""),
			} {
				require.Equal(t, http.StatusUnauthorized, response.StatusCode)
				require.Empty(t, response.Header.Get("Mcp-Session-Id"))
				text, err := io.ReadAll(response.Body)
				require.NoError(t, err)
				require.NotContains(t, string(text), token)
				require.Less(t, len(text), 500)
			}
		})
	}
	require.Equal(t, http.StatusOK, request(http.MethodPost, good, session, fmt.Sprintf(call, "of the right audience")).StatusCode)
	require.Contains(t, upstream.text(), "of the right audience")
	require.NotContains(t, upstream.text(), "of a wrong audience")
}

// A claim of the token names the profile of the client.
func TestRun_oidc_profile(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", t.TempDir())
	issuer := oidctest.New(t)
	servers := map[string]any{"a": entry(mcptest.Script{NoPrompts: true, Tools: []mcptest.ToolDef{{Name: "read", Text: "x"}, {Name: "write", Text: "y"}}})}
	b := startRun(t, servers, "run", "--mcp", "127.0.0.1:0", "--mcp-oidc-issuer", issuer.URL, "--mcp-oidc-audience", oidctest.Audience, "--mcp-oidc-profile-claim", "team")
	address := mcpURL(b)
	b.await(" ready: ")
	b.drain()
	b.writeText(configOf(t, servers, `{"profiles": {"readers": {"tools": ["read"]}}}`))
	b.exits(0, "reload")
	session, err := connect(t, address, issuer.Token(map[string]any{"team": "readers"}))
	require.NoError(t, err)
	require.Equal(t, []string{"a__read"}, toolNames(t, session))
	_, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "a__write"})
	require.ErrorContains(t, err, "unknown tool")
	require.Equal(t, http.StatusUnauthorized, send(t, address, issuer.Token(nil), nil).StatusCode)
	require.Equal(t, http.StatusForbidden, send(t, address, issuer.Token(map[string]any{"team": "writers"}), nil).StatusCode)
	require.Equal(t, http.StatusForbidden, send(t, address+"/writers", issuer.Token(map[string]any{"team": "readers"}), nil).StatusCode)
	http.DefaultClient.CloseIdleConnections()
}

// An issuer that is down at the start is a warning, and is asked again. Flags that contradict each other
// are refused.
func TestRun_oidc_start(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", t.TempDir())
	issuer := oidctest.New(t)
	issuer.Down.Store(true)
	b := startRun(t, map[string]any{"a": entry(mcptest.Script{})}, "run", "--mcp", "127.0.0.1:0", "--mcp-oidc-issuer", issuer.URL, "--mcp-oidc-audience", oidctest.Audience)
	address := mcpURL(b)
	b.await(" ready: ")
	b.drain()
	require.Contains(t, b.errs.String(), "the issuer "+issuer.URL+" cannot be used: it has answered with an error; until it can, no token is accepted")
	response := send(t, address, issuer.Token(nil), nil)
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), "tokens cannot be checked: the issuer "+issuer.URL+" cannot be used")
	issuer.Down.Store(false)
	require.Eventually(t, func() bool { return send(t, address, issuer.Token(nil), nil).StatusCode == http.StatusOK }, 30*time.Second, 50*time.Millisecond)
	http.DefaultClient.CloseIdleConnections()

	other := configFile(t, mcptest.Script{})
	with := func(args ...string) []string { return append([]string{"--config", other, "run"}, args...) }
	for _, row := range []struct {
		args []string
		says string
	}{
		{with("--mcp-oidc-issuer", issuer.URL), "set its address with --mcp"},
		{with("--mcp", "127.0.0.1:0", "--mcp-url", "https://x/mcp"), "--mcp-url is for clients that get their tokens from an issuer"},
		{with("--mcp", "127.0.0.1:0", "--mcp-oidc-issuer", issuer.URL), "an audience is needed"},
		{with("--mcp", "127.0.0.1:0", "--mcp-oidc-audience", "x"), "is not the address of one"},
		{with("--mcp", "127.0.0.1:0", "--mcp-oidc-issuer", "http://login.example.com", "--mcp-oidc-audience", "x"), "must be https"},
		{with("--mcp", "127.0.0.1:0", "--mcp-oidc-issuer", issuer.URL, "--mcp-oidc-audience", "x", "--mcp-url", "mcp.example.com"), `--mcp-url "mcp.example.com" is not the address`},
	} {
		var errs bytes.Buffer
		require.Equal(t, 2, run(t.Context(), row.args, strings.NewReader(""), new(bytes.Buffer), &errs), "%v: %s", row.args, errs.String())
		require.Contains(t, errs.String(), row.says)
	}
}
