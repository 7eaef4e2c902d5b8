package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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

// Copies of the user's own servers are killed, the session over HTTP begins again, a broken server is left out, and one whose
// lists do not come back fails.
func TestRunOwn(t *testing.T) {
	remote := mcptest.NewHTTP(mcptest.Script{})
	defer remote.Close()
	state := t.TempDir()
	servers := map[string]any{"fs": entryOf(mcptest.Script{StateDir: state}), "a-server-of-a-rather-long-name": entryOf(mcptest.Script{Tools: []mcptest.ToolDef{{Name: "one"}}}),
		"web": map[string]any{"url": remote.URL}, "broken": map[string]any{"command": "no-such-program-anywhere"}, "socket": map[string]any{"type": "ws", "url": "ws://127.0.0.1:9/mcp"}}
	text := runFile(t, 0, writeConfig(t, servers), time.Second)
	for _, want := range []string{"no tool is called", "skip broken", "no-such-program-anywhere", "KILL fs", "back fs", "kill 1", "RESTART web", "KILL a-server", "back a-server", "PASS",
		"is behind a WebSocket, which this program does not reach"} {
		require.Contains(t, text, want)
	}
	require.Equal(t, 1, strings.Count(text, "no-such-program-anywhere"), "a cause is told once:\n%s", text)
	require.Empty(t, mcptest.Executions(state), "a tool was called")
	servers["fs"] = entryOf(mcptest.Script{StateDir: t.TempDir(), Faults: []mcptest.Fault{{At: mcptest.StageStart, Starts: []int{2, 3, 4, 5}, Do: mcptest.ActionExit, Code: 1}}})
	require.Regexp(t, `FAIL fs: after .* it is evicted`, runFile(t, 1, writeConfig(t, servers), time.Second))
}

// runFile runs the demo with a configuration file, and returns what it prints, in one line.
func runFile(t *testing.T, code int, file string, storm time.Duration) string {
	t.Helper()
	var out bytes.Buffer
	p := newPrinter(&out)
	p.width = 80
	require.Equal(t, code, runOwn(t.Context(), p, settings{files: []string{file}, storm: storm, seed: 1}), out.String())
	for line := range strings.Lines(out.String()) {
		if !strings.Contains(line, file) { // a path has no place to wrap
			require.LessOrEqual(t, utf8.RuneCountInString(line), 81, line)
		}
	}
	require.Equal(t, code == 0, strings.Contains(out.String(), "PASS"), out.String())
	return strings.Join(strings.Fields(out.String()), " ")
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
		require.Contains(t, runFile(t, want.code, file, time.Millisecond), want.text)
	}
}

func TestRunOwn_interrupted(t *testing.T) {
	ctx, cancel := canceledContext(t)
	defer cancel()
	var out bytes.Buffer
	require.Equal(t, 1, runOwn(ctx, newPrinter(&out), settings{files: []string{writeConfig(t, map[string]any{"fs": entryOf(mcptest.Script{})})}, storm: time.Minute}))
	require.Contains(t, out.String(), "FAIL  context canceled")
}
