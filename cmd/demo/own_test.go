package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// entryOf is the entry of a configuration file for a server of this binary.
func entryOf(script mcptest.Script) map[string]any {
	s := mcptest.Stdio(script)
	return map[string]any{"command": s.Command, "args": s.Args, "env": s.Env, "retry": map[string]any{"base": "20ms", "max_attempts": 3}}
}

// writeConfig writes a configuration file and returns its name.
func writeConfig(t *testing.T, servers map[string]any) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"mcpServers": servers})
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "mcp.json")
	require.NoError(t, os.WriteFile(name, text, 0o600))
	return name
}

// The story of the user's own servers: processes are killed, a session over HTTP begins again,
// one that does not retry is started by hand, and a broken one is left out.
func TestRunOwn(t *testing.T) {
	remote := mcptest.NewHTTP(mcptest.Script{})
	defer remote.Close()
	state := t.TempDir()
	once := entryOf(mcptest.Script{Tools: []mcptest.ToolDef{{Name: "one"}}})
	once["retry"] = "none"
	file := writeConfig(t, map[string]any{"fs": entryOf(mcptest.Script{StateDir: state}), "a-server-of-a-rather-long-name": once, "web": map[string]any{"url": remote.URL},
		"broken": map[string]any{"command": "no-such-program-anywhere"}, "socket": map[string]any{"type": "ws", "url": "ws://127.0.0.1:9/mcp"}})
	var out bytes.Buffer
	p := newPrinter(&out)
	p.width = 80
	require.Zero(t, runOwn(t.Context(), p, []string{file}), out.String())
	lines := strings.Split(out.String(), "\n")
	for _, line := range lines {
		if !strings.Contains(line, file) { // a path has no place to wrap
			require.LessOrEqual(t, utf8.RuneCountInString(line), 80, line)
		}
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{"no tool is called", "skip broken", "no-such-program-anywhere", "KILL fs", "down fs", "tools fs none", "ready fs", "incarnation 2",
		"LOSE web", "KILL a-server", "its policy gives it up", "PASS", " 0 are left"} {
		require.Contains(t, text, want, out.String())
	}
	require.Contains(t, text, "is behind a WebSocket, which this program does not reach")
	require.Equal(t, 1, strings.Count(text, "no-such-program-anywhere"), "a cause is told once:\n%s", out.String())
	require.Empty(t, mcptest.Executions(state), "a tool was called")
	// What follows a restart is printed after it.
	for _, server := range []string{"fs", "web"} {
		first := strings.Index(text, "ready "+server)
		require.Less(t, first, strings.Index(text, "tools "+server), out.String())
		again := strings.Index(text[first+1:], "ready "+server)
		require.Less(t, again, strings.LastIndex(text[first+1:], "tools "+server), out.String())
	}
}

func TestRunOwn_bad_files(t *testing.T) {
	dir := t.TempDir()
	malformed, empty := filepath.Join(dir, "malformed.json"), filepath.Join(dir, "empty.json")
	require.NoError(t, os.WriteFile(malformed, []byte(`{"mcpServers": {"x"`), 0o600))
	require.NoError(t, os.WriteFile(empty, []byte(`{"mcpServers": {}}`), 0o600))
	for file, want := range map[string]struct {
		code int
		text string
	}{
		filepath.Join(dir, "none.json"): {2, "none.json"}, dir: {2, dir}, malformed: {2, "malformed.json:1"}, empty: {2, "no server that can be used"},
		writeConfig(t, map[string]any{"x": map[string]any{"comand": "y"}}):                         {2, "no server that can be used"},
		writeConfig(t, map[string]any{"x": map[string]any{"command": "no-such-program-anywhere"}}): {1, "no server is ready; mcpvisor doctor explains each"},
	} {
		var out bytes.Buffer
		require.Equal(t, want.code, runOwn(t.Context(), newPrinter(&out), []string{file}), out.String())
		require.Contains(t, out.String(), want.text)
		require.NotContains(t, out.String(), "PASS")
	}
}

func TestRunOwn_interrupted(t *testing.T) {
	ctx, cancel := canceledContext(t)
	defer cancel()
	var out bytes.Buffer
	require.Equal(t, 1, runOwn(ctx, newPrinter(&out), []string{writeConfig(t, map[string]any{"fs": entryOf(mcptest.Script{})})}))
	require.Contains(t, out.String(), "FAIL  the demo ran to its end")
}
