package hosts

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite testdata/imported.json")

// What is left out, renamed or refused is told.
func TestPlan_notes(t *testing.T) {
	m := newMachine(t, "linux")
	_, p := m.plan(t, filepath.Join(t.TempDir(), "mcp.json"), Keep)
	for _, c := range []struct{ host, name, says string }{
		{"Claude Code", "local", "left out, because mcpvisor has no such key: headersHelper"},
		{"VS Code", "perplexity", "left out, because mcpvisor has no such key: gallery, dev"},
		{"VS Code", "perplexity", `its input "perplexity-key" is added to "inputs"`},
		{"VS Code", "microsoft/playwright-mcp", `called "microsoft-playwright-mcp", because`},
		{"Codex", "context7", "left out, because mcpvisor has no such key: required"},
		{"Gemini CLI", "python", "left out, because mcpvisor has no such key: trust"},
		{"Windsurf", "devin", "left out, because mcpvisor has no such key: alwaysAllow"},
	} {
		notes := item(t, p, c.host, c.name).Notes
		found := false
		for _, note := range notes {
			found = found || len(note) >= len(c.says) && note[:len(c.says)] == c.says
		}
		require.True(t, found, "%s of %s: %q", c.name, c.host, notes)
	}
	refused := item(t, p, "Zed", "extension")
	require.Equal(t, ActionRefuse, refused.Action)
	require.Contains(t, refused.Reason, "an extension of Zed starts it")
}

// Two hosts may have different servers of one name. The user decides which one counts.
func TestPlan_clash(t *testing.T) {
	m := newMachine(t, "linux")
	path := filepath.Join(t.TempDir(), "mcp.json")
	require.NoError(t, os.WriteFile(path, []byte("{\n  // mine\n  \"mcpServers\": {\n    \"github\": {\"command\": \"mine\"},\n    \"older\": {\"command\": \"older-server\", \"args\": [\"--stdio\"], \"env\": {\"A\": \"b\"}}\n  }\n}\n"), 0o600))

	target, p := m.plan(t, path, Keep)
	for _, host := range []string{"Claude Desktop", "Cursor"} {
		require.Equal(t, ActionClash, item(t, p, host, "github").Action)
		require.Equal(t, path+":4", item(t, p, host, "github").Reason)
	}
	require.Equal(t, ActionSame, item(t, p, "Zed", "older").Action)
	require.Contains(t, string(target.Bytes()), `"github": {"command": "mine"}`)

	_, p = m.plan(t, path, Replace)
	require.Equal(t, ActionReplace, item(t, p, "Claude Desktop", "github").Action)
	second := item(t, p, "Cursor", "github")
	require.Equal(t, ActionClash, second.Action, "of two hosts the first one wins")
	require.Contains(t, second.Reason, "Claude Desktop ")

	target, p = m.plan(t, path, Rename)
	require.Equal(t, "github-claude-desktop", item(t, p, "Claude Desktop", "github").Name)
	require.Equal(t, "github-cursor", item(t, p, "Cursor", "github").Name)
	require.NoError(t, target.Write())
	again, p := m.plan(t, path, Rename)
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(written), string(again.Bytes()))
	require.Equal(t, ActionSame, item(t, p, "Cursor", "github").Action)
}

// A file that cannot be read is told, without its content, and does not stop the others.
func TestPlan_unreadable(t *testing.T) {
	m := newMachine(t, "linux")
	for path, text := range map[string]string{".cursor/mcp.json": `{"mcpServers": {"a": ghp_secret`, ".codex/config.toml": "x = ghp_secret",
		".gemini/settings.json": `[]`, ".codeium/windsurf/mcp_config.json": "", ".config/Claude/claude_desktop_config.json": `{"mcpServers": {"a": 1, "b": {}, "c": {"command": ["x"]}}}`} {
		require.NoError(t, os.WriteFile(filepath.Join(m.env.Home, path), []byte(text), 0o600))
	}
	_, p := m.plan(t, filepath.Join(t.TempDir(), "mcp.json"), Keep)
	require.Len(t, p.Unreadable, 3, "an empty file has no servers")
	for i, says := range []string{"(Cursor): it is not valid JSON in line 1; correct", "(Codex): it is not valid TOML in line 1; correct", "(Gemini CLI): it is not a JSON object"} {
		require.Contains(t, p.Unreadable[i], says)
		require.NotContains(t, p.Unreadable[i], "ghp_")
	}
	require.Equal(t, "it is not an object", item(t, p, "Claude Desktop", "a").Reason)
	require.Contains(t, item(t, p, "Claude Desktop", "b").Reason, `has neither "command" nor "url"`)
	require.Contains(t, item(t, p, "Claude Desktop", "c").Reason, `"command" must be a string`)
	require.Positive(t, p.Count(ActionAdd))
}

// The places follow the variables that the hosts follow.
func TestFind_by_variables(t *testing.T) {
	e := Environment{OS: "linux", Home: "/h", XDGConfig: "/x", ClaudeConfig: "/c", CodexHome: "/d", Dir: "/p"}
	for id, want := range map[string]string{"claude-desktop": "/x/Claude/claude_desktop_config.json", "claude-code": "/c/.claude.json",
		"codex": "/d/config.toml", "zed": "/x/zed/settings.json", "vscode": "/x/Code/User/mcp.json", "cursor": "/h/.cursor/mcp.json"} {
		h, ok := ByID(id)
		require.True(t, ok)
		require.Equal(t, filepath.FromSlash(want), h.Paths(e)[0], id)
	}
	_, ok := ByID("notepad")
	require.False(t, ok)
	e = Environment{OS: "windows", Home: "/h"}
	h, _ := ByID("claude-desktop")
	require.Equal(t, filepath.FromSlash("/h/AppData/Roaming/Claude/claude_desktop_config.json"), h.Paths(e)[0], "without APPDATA")
	here, err := Here()
	require.NoError(t, err)
	require.NotEmpty(t, here.Dir)
}
