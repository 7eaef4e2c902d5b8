package web_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/web"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// Tools of all servers are found by words of their names and descriptions. Their number and their
// texts are bounded.
func TestSearch(t *testing.T) {
	c := newClient(t)
	long := strings.Repeat("x ", 2000) + "unseen"
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "files", InMemory: mcptest.InMemory(mcptest.Script{
		Tools: []mcptest.ToolDef{{Name: "Read", Description: "Reads a file\nas text."}, {Name: "write", Description: long}}})}))
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "many", InMemory: mcptest.InMemory(mcptest.Script{ExtraTools: 120})}))
	s := serve(t, c)
	search := func(words string) api.Search {
		t.Helper()
		return decoded[api.Search](s, "/api/search?q="+url.QueryEscape(words), http.StatusOK)
	}
	require.Equal(t, []api.FoundTool{{Server: "files", Name: "files/Read", OriginalName: "Read", Description: "Reads a file as text."}}, search("TEXT read").Tools)
	require.Len(t, search("files/").Tools, 2)
	require.Empty(t, search("unseen").Tools, "only the beginning of a description is searched")
	require.LessOrEqual(t, len(search("files/write").Tools[0].Description), 220)
	many := search("tool_")
	require.Len(t, many.Tools, 50)
	require.Equal(t, 70, many.More)
	for _, query := range []string{"", "?q=", "?q=+", "?q=" + strings.Repeat("x", 201)} {
		response, body := s.do(http.MethodGet, "/api/search"+query, "", nil)
		require.Equal(t, http.StatusBadRequest, response.StatusCode)
		require.Contains(t, body, "at most 200 bytes")
	}
}

// What a mask hides is neither shown nor found.
func TestSearch_masked(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{
		Tools: []mcptest.ToolDef{{Name: "t", Description: "Uses canary.", InputSchema: json.RawMessage(`{"type":"object","properties":{"key":{"enum":["canary"]}}}`)}}})}))
	s := serve(t, c, web.WithMask(func(server, text string) string {
		require.Equal(t, "s", server)
		return strings.ReplaceAll(text, "canary", "***")
	}))
	for _, path := range []string{"/api/search?q=uses", "/api/servers/s/tools"} {
		_, body := s.get(path)
		require.Contains(t, body, "Uses ***.")
		require.NotContains(t, body, "canary")
	}
	require.Empty(t, decoded[api.Search](s, "/api/search?q=canary", http.StatusOK).Tools)
}
