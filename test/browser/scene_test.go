package browser

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// installed is a fixture server that is found in PATH under a name of its own.
func installed(t *testing.T, name string, script mcptest.Script) *mcpvisor.Stdio {
	t.Helper()
	dir, stdio := t.TempDir(), mcptest.Stdio(script)
	require.NoError(t, os.Symlink(stdio.Command, filepath.Join(dir, name)))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	stdio.Command = name
	return stdio
}

// registerScene adds servers in several states: ready over three transports, one with a
// standby, one in backoff, one evicted, and calls with every outcome.
func registerScene(t *testing.T, c *facade.Client, trouble bool) {
	t.Helper()
	retry := supervisor.Retry(5, 5*time.Minute)
	schema := json.RawMessage(`{"type":"object","required":["path"],"properties":{"path":{"type":"string","description":"An absolute path."},
		"show":{"type":"string","enum":["names","sizes","all"],"default":"names","description":"What to list."},
		"depth":{"type":"integer","minimum":0,"maximum":9,"description":"How many levels to descend."},"hidden":{"type":"boolean","default":false},
		"filter":{"type":"object","description":"Conditions on names, as in {\"ends_with\": \".go\"}."}}}`)
	tools := func(named map[string]string) (all []mcptest.ToolDef) {
		for _, name := range slices.Sorted(maps.Keys(named)) {
			all = append(all, mcptest.ToolDef{Name: name, Description: named[name], InputSchema: schema, As: map[string]string{"watch_directory": "hang", "list_commits": "sleep", "merge_pull_request": "fail"}[name],
				Text: "[DIR]  archive\n[DIR]  incoming\n[FILE] orders.csv\n[FILE] README.md"})
		}
		return all
	}
	files := tools(map[string]string{"list_directory": "Lists the entries of a directory, directories first.", "read_text_file": "Reads a file as text.", "write_file": "Creates a file, or replaces its content.",
		"search_files": "Finds files whose names match a pattern.", "move_file": "Moves or renames a file.", "get_file_info": "Size, times and permissions of a file.", "edit_file": "Replaces lines of a file.",
		"directory_tree": "All entries below a directory, as JSON.", "watch_directory": "Returns when a directory changes."})
	code := tools(map[string]string{"create_issue": "Opens an issue.", "list_commits": "Commits of a branch, newest first.", "merge_pull_request": "Merges a pull request.", "search_code": "Finds code in repositories."})
	for _, spec := range []mcpvisor.ServerSpec{
		{Name: "filesystem", Origin: ".mcp.json:4", Standby: true, Stdio: installed(t, "mcp-server-filesystem", mcptest.Script{Name: "secure-filesystem", Version: "2.4.1", Tools: files})},
		{Name: "github", Origin: ".mcp.json:11", Stdio: installed(t, "mcp-server-github", mcptest.Script{Name: "github", Version: "1.9.0", Tools: code})},
		{Name: "memory", InMemory: mcptest.InMemory(mcptest.Script{})},
		{Name: "search", Origin: ".mcp.json:31", HTTP: &mcpvisor.HTTP{URL: newHTTPServer(t)}},
	} {
		spec.Policy = retry
		register(t, c, spec)
	}
	for i := range 40 {
		for _, tool := range []string{"filesystem/list_directory", "filesystem/read_text_file", "github/search_code", "memory/echo", "search/echo", "github/merge_pull_request"} {
			if tool == "github/merge_pull_request" && i > 2 {
				continue
			}
			_, err := c.CallTool(t.Context(), tool, map[string]any{"path": "/srv", "text": "x", "a": 1, "b": i})
			require.NoError(t, err)
		}
	}
	_, err := c.CallTool(t.Context(), "github/list_commits", map[string]any{"ms": 240})
	require.NoError(t, err)
	if !trouble {
		return
	}
	dir := t.TempDir()
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "postgres", Origin: ".mcp.json:19", Policy: retry, Stdio: installed(t, "mcp-server-postgres", mcptest.Script{StateDir: dir, Faults: []mcptest.Fault{
		{At: mcptest.StageStart, Do: mcptest.ActionStderrLine, Text: "connecting to db.internal:5432"},
		{At: mcptest.StageCall, Tool: "crash", Do: mcptest.ActionStderrLine, Text: "FATAL: terminating connection due to administrator command"}}})}))
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "browser", Origin: ".mcp.json:27", StartSupervised: true, Stdio: installed(t, "mcp-server-browser", mcptest.Script{Faults: []mcptest.Fault{
		{At: mcptest.StageStart, Do: mcptest.ActionStderrLine, Text: "Error: browserType.launch: Executable doesn't exist at /opt/browsers/chromium/chrome"},
		{At: mcptest.StageStart, Do: mcptest.ActionExit, Code: 1}}})}))
	require.ErrorIs(t, c.WaitReady(t.Context(), "browser"), mcpvisor.ErrEvicted)
	ended := make(chan error)
	for _, tool := range []string{"postgres/hang", "filesystem/watch_directory"} {
		go func() {
			_, err := c.CallTool(t.Context(), tool, nil)
			ended <- err
		}()
	}
	t.Cleanup(func() { require.Error(t, <-ended) })
	require.Eventually(t, func() bool { return len(c.CallsInFlight()) == 2 }, patience, time.Millisecond)
	_, err = c.CallTool(t.Context(), "postgres/crash", map[string]any{"code": 57})
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	require.ErrorIs(t, <-ended, mcpvisor.ErrCrashed)
	_, err = c.CallTool(t.Context(), "postgres/echo", nil)
	require.ErrorIs(t, err, mcpvisor.ErrUnavailable)
	require.Eventually(t, func() bool {
		status, _ := c.ServerStatus("postgres")
		return status.State == supervisor.StateBackoff
	}, patience, time.Millisecond)
}

func newHTTPServer(t *testing.T) string {
	t.Helper()
	s := mcptest.NewHTTP(mcptest.Script{Name: "search", Version: "7.0.2"})
	t.Cleanup(s.Close)
	return s.URL
}
