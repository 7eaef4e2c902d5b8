//go:build real

package real

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// cloud starts a web service for the server under test. It returns one document for
// each path to requests with the token. It never answers any other path, as a service
// that hangs.
func cloud(t *testing.T, token string, documents map[string]string) string {
	t.Helper()
	closed := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		document, ok := documents[r.URL.Path]
		switch {
		case r.Header.Get("Authorization") != "Bearer "+token:
			w.WriteHeader(http.StatusUnauthorized)
		case ok:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(document))
		default:
			select {
			case <-closed:
			case <-r.Context().Done():
			}
		}
	}))
	t.Cleanup(func() {
		close(closed)
		web.Close()
	})
	return web.URL
}

// requireTimeout makes a call that the service behind the server does not answer, and
// requires that it times out.
func requireTimeout(t *testing.T, c *facade.Client, tool string, args map[string]any) {
	t.Helper()
	_, err := c.CallTool(t.Context(), tool, args, facade.WithTimeout(500*time.Millisecond))
	require.ErrorIs(t, err, mcpvisor.ErrTimeout)
}

func context7(t *testing.T) *mcpvisor.Stdio {
	s := node("node_modules/@upstash/context7-mcp/dist/index.js")(t)
	s.Env = map[string]string{"CONTEXT7_API_KEY": "ctx7sk-dummy", "CONTEXT7_API_URL": cloud(t, "ctx7sk-dummy", map[string]string{
		"/v2/libs/search": `{"results":[{"id":"/erlang/otp","title":"Erlang/OTP","description":"Let it crash","totalSnippets":7}]}`,
	})}
	return s
}

func checkContext7(t *testing.T, c *facade.Client) {
	args := map[string]any{"query": "supervisors", "libraryName": "otp"}
	require.Contains(t, call(t, c, "context7/resolve-library-id", args), "/erlang/otp")
	requireTimeout(t, c, "context7/query-docs", map[string]any{"query": "supervisors", "libraryId": "/erlang/otp"})
	res, err := c.CallTool(t.Context(), "context7/resolve-library-id", nil)
	require.NoError(t, err)
	require.True(t, res.IsError)
}

func notion(t *testing.T) *mcpvisor.Stdio {
	s := node("node_modules/@notionhq/notion-mcp-server/bin/cli.mjs")(t)
	s.Env = map[string]string{"NOTION_TOKEN": "ntn_dummy", "BASE_URL": cloud(t, "ntn_dummy", map[string]string{
		"/v1/users/me": `{"object":"user","id":"7","type":"bot","name":"Robot"}`,
	})}
	return s
}

func checkNotion(t *testing.T, c *facade.Client) {
	require.Contains(t, call(t, c, "notion/API-get-self", nil), "Robot")
	requireTimeout(t, c, "notion/API-get-users", nil)
}
