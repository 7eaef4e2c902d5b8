package headerauth_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/headerauth"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/fixture/role"
)

const testTimeout = time.Minute

// registerRoles registers the roles of this binary: programs that a Source runs.
func registerRoles() {
	role.Register("print", func() int { fmt.Print(os.Getenv("PRINT")); return 0 })
	role.Register("print-file", func() int { // and count the runs
		counter, _ := os.OpenFile(os.Getenv("FILE")+".runs", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		_, _ = counter.WriteString("x")
		_ = counter.Close()
		text, err := os.ReadFile(os.Getenv("FILE"))
		fmt.Print(string(text))
		if err != nil {
			return 1
		}
		return 0
	})
	role.Register("fail", func() int { fmt.Fprintln(os.Stderr, "first\nlog in again, first-token-0123"); return 7 })
	role.Register("flood", func() int {
		for {
			if _, err := os.Stdout.WriteString(strings.Repeat("x", 4096)); err != nil {
				return 1
			}
		}
	})
	role.Register("hang", func() int { time.Sleep(role.MaxLifetime); return 0 })
}

func TestMain(m *testing.M) {
	registerRoles()
	mcptest.Main()
	goleak.VerifyTestMain(m)
}

// source returns a Source that runs this binary in a role.
func source(name string, env ...string) *headerauth.Source {
	s := role.Stdio(name, nil)
	for i := 0; i < len(env); i += 2 {
		s.Env[env[i]] = env[i+1]
	}
	return &headerauth.Source{Command: []string{s.Command}, Env: s.Env}
}

// credentialOf asks the source of one server once, and returns the headers that a request gets.
func credentialOf(t *testing.T, s *headerauth.Source) (http.Header, error) {
	t.Helper()
	require.NoError(t, s.Validate())
	a, err := s.NewAuthorizer(nil, nil)
	require.NoError(t, err)
	a.Attach(t.Context())
	defer a.Detach(0)
	c, err := a.Credential(t.Context())
	if err != nil {
		return nil, err
	}
	h := http.Header{}
	return h, c.SetHeaders(h, http.MethodPost, &url.URL{}, nil)
}

func TestCommand_output(t *testing.T) {
	for output, want := range map[string]http.Header{
		"a-token\n": {"Authorization": {"Bearer a-token"}},
		`{"authorization": "Basic eDp5", "X-Team": "a b", "Mcp-Session-Id": "no", "host": "no"}`: {"Authorization": {"Basic eDp5"}, "X-Team": {"a b"}},
	} {
		got, err := credentialOf(t, source("print", "PRINT", output))
		require.NoError(t, err, output)
		require.Equal(t, want, got)
	}
	for output, says := range map[string]string{
		"":                              "it printed nothing",
		"log in first":                  "neither a JSON object of headers nor a token",
		`{"a": 1}`:                      "not an object of strings",
		`{"secret-token": `:             "not an object of strings",
		`{"A": "secret-token\r\nB: c"}`: "not usable",
		`{"a b": "secret-token"}`:       "not usable",
		`{"Host": "secret-token"}`:      "there is no header",
	} {
		_, err := credentialOf(t, source("print", "PRINT", output))
		require.ErrorContains(t, err, says, output)
		require.NotContains(t, err.Error(), "secret-token")
	}
}

func TestCommand_fails(t *testing.T) {
	_, err := credentialOf(t, source("fail"))
	require.ErrorContains(t, err, "exit status 7: log in again")
	var unavailable *mcpvisor.AuthUnavailable
	require.ErrorAs(t, err, &unavailable)
	_, err = credentialOf(t, source("flood"))
	require.ErrorContains(t, err, "it printed more than 65536 bytes")
	slow := source("hang")
	slow.Timeout = 50 * time.Millisecond
	_, err = credentialOf(t, slow)
	require.ErrorContains(t, err, "it did not end in time")
	_, err = credentialOf(t, &headerauth.Source{Command: []string{filepath.Join(t.TempDir(), "none")}})
	require.ErrorContains(t, err, "no such file")
	_, err = credentialOf(t, &headerauth.Source{Fetch: func(context.Context) (map[string]string, error) { panic("oops") }})
	require.ErrorContains(t, err, "panicked")
}

// A session that ends kills the program.
func TestDetach_during_run(t *testing.T) {
	a, err := source("hang").NewAuthorizer(nil, nil)
	require.NoError(t, err)
	a.Attach(t.Context())
	asked := make(chan error, 1)
	started := make(chan struct{})
	go func() { close(started); _, err := a.Credential(t.Context()); asked <- err }()
	<-started
	a.Detach(0)
	a.Attach(t.Context()) // a run that had not begun belongs to the next session
	a.Detach(0)
	select {
	case err := <-asked:
		require.ErrorContains(t, err, "the session ended")
	case <-time.After(testTimeout):
		t.Fatal("the program was not killed")
	}
}

func TestSource_Equal(t *testing.T) {
	full := headerauth.Source{Command: []string{"a", "b"}, Dir: "d", Env: map[string]string{"A": "b"}, Timeout: time.Second}
	same := full
	require.True(t, full.Equal(&same))
	for i, change := range []func(*headerauth.Source){
		func(s *headerauth.Source) { s.Command = []string{"a"} },
		func(s *headerauth.Source) { s.Dir = "e" },
		func(s *headerauth.Source) { s.Env = nil },
		func(s *headerauth.Source) { s.Timeout = 0 },
		func(s *headerauth.Source) {
			s.Fetch = func(context.Context) (map[string]string, error) { return nil, nil }
		},
	} {
		other := full
		change(&other)
		require.False(t, full.Equal(&other), i)
	}
	require.False(t, full.Equal(nil))
	for _, s := range []*headerauth.Source{nil, {}, {Command: []string{" "}}, {Command: []string{"a"}, Timeout: -1},
		{Command: []string{"a"}, Fetch: func(context.Context) (map[string]string, error) { return nil, nil }}} {
		require.Error(t, s.Validate())
	}
}

// guard is an MCP server behind a check of a token.
type guard struct {
	*httptest.Server
	token   atomic.Pointer[string]
	served  sync.Map // bodies of calls of tools that reached the server
	refused atomic.Int32
	hold    chan struct{} // refusals of calls wait for it; nil: they do not
}

func newGuard(t *testing.T, token string) *guard {
	t.Helper()
	server := mcptest.NewHTTP(mcptest.Script{})
	t.Cleanup(server.Close)
	target, err := url.Parse(server.URL)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.URL.Path = target.Path }}
	g := &guard{}
	g.token.Store(&token)
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if sent := r.Header.Get("Authorization"); sent != "Bearer "+*g.token.Load() {
			if g.refused.Add(1); g.hold != nil {
				<-g.hold
			}
			http.Error(w, "no access with "+sent, http.StatusUnauthorized)
			return
		}
		if strings.Contains(string(body), "tools/call") {
			if _, twice := g.served.LoadOrStore(string(body), true); twice {
				t.Error("a call ran twice")
			}
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(g.Close)
	return g
}

func newClient(t *testing.T, g *guard, auth mcpvisor.Auth) (*facade.Client, error) {
	t.Helper()
	c, err := facade.New()
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", HTTP: &mcpvisor.HTTP{URL: g.URL, Auth: auth}, Policy: supervisor.NoRetry()})
}

// The program is asked once, and once more after a 401, whatever the number of calls: all of them
// succeed, and none runs twice.
func TestCommand_token_expires(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	runs := func() int { text, _ := os.ReadFile(path + ".runs"); return len(text) }
	require.NoError(t, os.WriteFile(path, []byte("first-token-0123"), 0o600))
	g := newGuard(t, "first-token-0123")
	c, err := newClient(t, g, source("print-file", "FILE", path))
	require.NoError(t, err)
	call := func(text string) error {
		_, err := c.CallTool(t.Context(), "s/echo", map[string]any{"text": text})
		return err
	}
	require.NoError(t, call("before"))
	require.Equal(t, 1, runs())

	second := "second-token-4567"
	g.hold = make(chan struct{})
	g.token.Store(&second)
	require.NoError(t, os.WriteFile(path, []byte(second), 0o600))
	const calls = 8
	errs := make(chan error, calls)
	for i := range calls {
		go func() { errs <- call(fmt.Sprint("call ", i)) }()
	}
	require.Eventually(t, func() bool { return g.refused.Load() >= calls }, testTimeout, time.Millisecond)
	close(g.hold)
	for range calls {
		require.NoError(t, <-errs)
	}
	require.Equal(t, 2, runs())
}

// If the new headers are refused, too, the call fails and shows no secret, and the program is not
// run for each further call.
func TestCommand_token_refused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(path, []byte("first-token-0123"), 0o600))
	g := newGuard(t, "first-token-0123")
	c, err := newClient(t, g, source("print-file", "FILE", path))
	require.NoError(t, err)
	none := "none"
	g.token.Store(&none)
	require.NoError(t, os.WriteFile(path, []byte("other-token-0123"), 0o600))
	for range 20 {
		_, err := c.CallTool(t.Context(), "s/echo", map[string]any{"text": "hello"})
		require.ErrorIs(t, err, mcpvisor.ErrAuthRequired)
		require.NotContains(t, err.Error(), "token-0123")
	}
	runs, err := os.ReadFile(path + ".runs")
	require.NoError(t, err)
	require.Less(t, len(runs), 10)
}

// A start whose program fails is retried, because it may work later.
func TestCommand_fails_at_the_start(t *testing.T) {
	g := newGuard(t, "first-token-0123")
	_, err := newClient(t, g, source("fail"))
	require.ErrorContains(t, err, "exit status 7")
	require.NotErrorIs(t, err, mcpvisor.ErrAuthRequired)
	require.Zero(t, g.refused.Load(), "nothing was sent")
}

// A function supplies the headers, too.
func ExampleSource() {
	spec := mcpvisor.ServerSpec{Name: "web", HTTP: &mcpvisor.HTTP{URL: "https://mcp.example.com/mcp", Auth: &headerauth.Source{
		Fetch: func(context.Context) (map[string]string, error) {
			return map[string]string{"X-Ticket": "a ticket"}, nil
		},
	}}}
	fmt.Println(spec.Validate())
	// Output: <nil>
}
