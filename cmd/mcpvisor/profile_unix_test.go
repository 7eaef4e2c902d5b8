//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// configOf is a configuration with servers and "gateway".
func configOf(t *testing.T, servers map[string]any, gateway string) string {
	t.Helper()
	return jsonText(t, map[string]any{"mcpServers": servers, "gateway": json.RawMessage(gateway)})
}

// toolNames lists the tools of a session.
func toolNames(t *testing.T, session *mcp.ClientSession) (names []string) {
	t.Helper()
	for tool, err := range session.Tools(t.Context(), nil) {
		require.NoError(t, err)
		names = append(names, tool.Name)
	}
	return names
}

// A run serves the profiles of its configuration, by path and by token, and takes over a change of
// them without an end of sessions. What cannot be used leaves them as they are.
func TestRun_profiles(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", t.TempDir())
	servers := map[string]any{"a": entry(mcptest.Script{NoPrompts: true, Tools: []mcptest.ToolDef{{Name: "read", Text: strings.Repeat("x", 5000)}, {Name: "write", Text: "y"}}}),
		"b": entry(mcptest.Script{NoPrompts: true, Tools: []mcptest.ToolDef{{Name: "read", Text: "z"}}})}
	tokens, file := makeTokens(t, []string{"all"}, []string{"reader", "--profile", "read"})
	b := startRun(t, servers, "run", "--mcp", "127.0.0.1:0", "--mcp-tokens", file)
	url := mcpURL(b)
	b.await(" ready  ")
	b.await(" ready  ")
	b.drain()
	_, err := connect(t, url, tokens["reader"])
	require.Error(t, err, "there is no such profile yet")
	reload := func(gateway string) {
		b.writeText(configOf(t, servers, gateway))
		code, out, errs := b.command("reload")
		require.Zero(t, code, out+errs)
	}
	reload(`{"profiles": {"read": {"tools": ["read"]}}, "result_max": 1000}`)
	session, err := connect(t, url, tokens["reader"])
	require.NoError(t, err)
	require.Equal(t, []string{"a__read", "b__read"}, toolNames(t, session))
	_, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "a__write"})
	require.ErrorContains(t, err, `unknown tool "a__write"`)
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "a__read"})
	require.NoError(t, err)
	require.Len(t, result.Content, 2)
	require.Len(t, result.Content[0].(*mcp.TextContent).Text, 1000)
	whole, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: result.Content[1].(*mcp.ResourceLink).URI})
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("x", 5000), whole.Contents[0].Text)

	all, err := connect(t, url, tokens["all"])
	require.NoError(t, err)
	require.Equal(t, []string{"a__read", "a__write", "b__read"}, toolNames(t, all))
	byPath, err := connect(t, url+"/read", tokens["all"])
	require.NoError(t, err)
	require.Equal(t, []string{"a__read", "b__read"}, toolNames(t, byPath))
	_, err = connect(t, url+"/none", tokens["all"])
	require.Error(t, err)

	reload(`{"profiles": {"read": {"servers": ["b"]}}}`)
	require.Equal(t, []string{"b__read"}, toolNames(t, session), "the session goes on")
	for _, broken := range []string{`{"profiles": {"read": {"server": ["a"]}}}`, `{"profiles": {"read": {"tools": ["a["]}}}`} {
		b.writeText(configOf(t, servers, broken))
		for _, args := range [][]string{{"reload", "--dry-run"}, {"reload"}} {
			code, _, errs := b.command(args...)
			require.Equal(t, 3, code)
			require.Contains(t, errs, `"gateway.profiles.read.`, broken)
			require.Contains(t, errs, "what hosts are offered is kept")
		}
		require.Equal(t, []string{"b__read"}, toolNames(t, session), broken)
		code, shown, _ := b.command("status")
		require.Zero(t, code, "the servers run")
		require.NotContains(t, shown, "gateway")
	}

	// Names that collide are withheld, and the status says so.
	reload(`{"names": {"prefix": "never"}}`)
	require.Equal(t, []string{"write"}, toolNames(t, all))
	code, shown, _ := b.command("status")
	require.Zero(t, code)
	require.Equal(t, 2, strings.Count(shown, `the tool "read" is not offered to hosts: the name "read" would stand for a/read`), shown)
	code, shown, _ = b.command("--json", "status")
	require.Zero(t, code)
	require.Equal(t, 2, strings.Count(shown, `"withheld"`))
	http.DefaultClient.CloseIdleConnections()
}

// A configuration whose "gateway" cannot be used does not start: a profile that is read in part would
// offer more than it says.
func TestRun_gateway_that_cannot_be_used(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", shortDir(t))
	a, b := entry(mcptest.Script{}), entry(mcptest.Script{})
	a["tools"], b["tools"] = []string{"echo"}, []string{"echo", "pid"}
	for gateway, says := range map[string]string{
		`{"profiles": {"read": {"tool": ["read"]}}}`: `unknown key "gateway.profiles.read.tool"; did you mean "tools"?`,
		`{"names": {"prefix": "never"}}`:             `the servers "a" and "b" both offer the tool "echo"`,
	} {
		path := filepath.Join(t.TempDir(), "c.json")
		require.NoError(t, os.WriteFile(path, []byte(configOf(t, map[string]any{"a": a, "b": b}, gateway)), 0o600))
		var errs bytes.Buffer
		require.Equal(t, 2, run(t.Context(), []string{"--config", path, "run"}, strings.NewReader(""), new(bytes.Buffer), &errs))
		require.Contains(t, errs.String(), says)
	}
}

// A host of mcpvisor stdio may have a profile, which must exist.
func TestStdio_profile(t *testing.T) {
	t.Parallel()
	servers := map[string]any{"a": entry(mcptest.Script{Tools: []mcptest.ToolDef{{Name: "read", Text: "x"}, {Name: "write", Text: "y"}}})}
	h := newHousehold(t, servers)
	require.NoError(t, os.WriteFile(h.file, []byte(configOf(t, servers, `{"profiles": {"read": {"tools": ["r*"]}}}`)), 0o600))
	all, _, _ := h.host()
	reader, _, _ := h.host("--profile", "read")
	require.Equal(t, []string{"a__read", "a__write"}, toolNames(t, all))
	require.Equal(t, []string{"a__read"}, toolNames(t, reader))
	_, err := reader.CallTool(t.Context(), &mcp.CallToolParams{Name: "a__write"})
	require.ErrorContains(t, err, "unknown tool")

	_, err = mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: h.stdio("--profile", "raed")}, nil)
	require.ErrorContains(t, err, `the configuration has no profile "raed"`)
}
