package hostilehttp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// testClient sends raw requests to a server.
type testClient struct {
	t       *testing.T
	url     string
	session string
	version string
	web     *http.Client
}

func newTestClient(t *testing.T, url, version string) *testClient {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &testClient{t: t, url: url, version: version, web: &http.Client{Transport: transport, Timeout: eventually,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// post sends a message and returns the status and the body. Both are zero if the server
// did not respond.
func (c *testClient) post(ctx context.Context, body string) (int, string, http.Header) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, strings.NewReader(body))
	require.NoError(c.t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", c.version)
	r.Header.Set("Authorization", "Bearer secret")
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
	}
	resp, err := c.web.Do(r)
	if err != nil {
		return 0, "", nil
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols { // the body of a 101 ends only with the connection
		return resp.StatusCode, "", resp.Header
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16)) // the body may be broken
	return resp.StatusCode, string(text), resp.Header
}

func (c *testClient) initialize() {
	status, body, header := c.post(context.Background(), `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
	require.Equal(c.t, 200, status)
	require.Contains(c.t, body, `"protocolVersion":"2025-11-25"`)
	c.session = header.Get("Mcp-Session-Id")
}

func (c *testClient) call(ctx context.Context, tool string) (int, string) {
	status, body, _ := c.post(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":%q,"arguments":{"text":"hello"}}}`, tool))
	return status, body
}

const goodContent = `"content":[{"type":"text","text":"hello"}]`

func TestMisbehaviours_names(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range Misbehaviours() {
		require.False(t, seen[m.Name], "%s is listed twice", m.Name)
		seen[m.Name] = true
		require.Regexp(t, `^(none|[a-z]+/[a-z0-9.-]+)$`, m.Name)
		require.Regexp(t, `^[A-Z].*\.$`, m.About, m.Name)
		require.NotEmpty(t, m.Eras())
		found, ok := MisbehaviourNamed(m.Name)
		require.True(t, ok)
		require.Equal(t, m.About, found.About)
	}
	require.Greater(t, len(seen), 200)
	_, ok := MisbehaviourNamed("call/virtue")
	require.False(t, ok)
}

// Each server responds or ends the connection, and leaves nothing behind.
func TestMisbehaviours_run(t *testing.T) {
	for _, m := range Misbehaviours() {
		s := m.Serve()
		c := newTestClient(t, s.URL, "2026-07-28")
		// Without a session some servers do not reach their misbehaviour; here only a
		// clean end matters.
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		left := make(chan struct{})
		go func() { // cancel after the request has arrived, because some servers never respond
			defer close(left)
			defer cancel()
			for s.Requests(http.MethodPost) == 0 && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}()
		_, _ = c.call(ctx, "misbehave")
		cancel()
		<-left
		require.Positive(t, s.Requests(http.MethodPost), m.Name)
		require.Equal(t, []string{"Bearer secret"}, s.Values("authorization"), m.Name)
		s.Close()
		require.Zero(t, s.Connections(), m.Name)
	}
}

// A server that misbehaves at one call answers other calls correctly.
func TestMisbehaviours_answer_other_calls(t *testing.T) {
	for _, m := range Misbehaviours() {
		group, _, _ := strings.Cut(m.Name, "/")
		switch group {
		case "none", "call", "redirect", "wire", "head", "events", "resume", "answers":
		default:
			continue
		}
		for _, era := range m.Eras() {
			s := m.Serve()
			c := newTestClient(t, s.URL, "2026-07-28")
			if era == mcpvisor.EraLegacy {
				c.version = "2025-11-25"
				c.initialize()
			}
			status, body := c.call(context.Background(), "echo")
			require.Equal(t, 200, status, m.Name)
			require.Contains(t, body, goodContent, m.Name)
			s.Close()
		}
	}
}

func TestServer_sessions_end_with_restart(t *testing.T) {
	s := Misbehaviours()[0].Serve()
	defer s.Close()
	c := newTestClient(t, s.URL, "2025-11-25")
	status, _ := c.call(context.Background(), "echo")
	require.Equal(t, 400, status, "there is no session yet")
	c.initialize()
	status, body := c.call(context.Background(), "echo")
	require.Equal(t, 200, status)
	require.Contains(t, body, goodContent)
	s.Restart()
	status, _ = c.call(context.Background(), "echo")
	require.Equal(t, 404, status, "sessions do not outlive a server")
	s.Stop()
	status, _ = c.call(context.Background(), "echo")
	require.Zero(t, status, "the port refuses connections")
}

func TestServer_counts_cross_origin_requests(t *testing.T) {
	m, ok := MisbehaviourNamed("redirect/elsewhere-307")
	require.True(t, ok)
	s := m.Serve()
	defer s.Close()
	c := newTestClient(t, s.URL, "2026-07-28")
	status, _ := c.call(context.Background(), "misbehave")
	require.Equal(t, 307, status)
	require.Zero(t, s.CrossOriginRequests())
	c.web.CheckRedirect = nil
	status, _ = c.call(context.Background(), "misbehave")
	require.Equal(t, 404, status)
	require.Equal(t, 1, s.CrossOriginRequests())
}
