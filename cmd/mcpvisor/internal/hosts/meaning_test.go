package hosts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What belongs into a variable is said: the whole value, or the part between two texts.
func TestPlan_parts_of_values(t *testing.T) {
	_, p := planOf(t, "cursor", `{"mcpServers": {
		"web": {"url": "https://u:pa55word1@w.example/mcp?key=q0123456789", "headers": {"Authorization": "Bearer tok0123456789abcdef"}},
		"arg": {"command": "x", "args": ["-H", "Authorization: Bearer tok9876543210abcdef"]}
	}}`)
	for name, end := range map[string]string{"WEB_URL_SECRET": `, the part after "https://"`, "WEB_TOKEN": `, the part after "Bearer "`, "ARG_H": `, the part after "Authorization: "`} {
		v := p.vars.find(name)
		require.NotNil(t, v, name)
		require.Contains(t, v.For[0]+"\n", end+"\n")
	}
}

// A relative path of the user's file begins elsewhere after the move, which is told.
func TestPlan_relative_paths_of_the_user(t *testing.T) {
	_, p := planOf(t, "cursor", `{"mcpServers": {
		"a": {"command": "node", "args": ["${workspaceFolder}/srv.js"], "cwd": "./d", "envFile": "~/x.env"},
		"b": {"command": "node", "cwd": "/abs"}
	}}`)
	require.Contains(t, item(t, p, "Cursor", "a").Notes[0], "${workspaceFolder}, cwd now begins at the directory of ")
	for _, note := range item(t, p, "Cursor", "b").Notes {
		require.NotContains(t, note, "begins")
	}
}

// Claude Code knows a project by its real path, and the shell by that of a link.
func TestPlan_project_behind_a_link(t *testing.T) {
	home, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	project, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	if err := os.Symlink(project, link); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	text := `{"projects": {"/elsewhere": {}, "` + filepath.ToSlash(project) + `": {"mcpServers": {"mine": {"command": "x"}}}}}`
	require.NoError(t, os.WriteFile(filepath.Join(home, ".claude.json"), []byte(text), 0o600))
	m := &machine{env: Environment{OS: "linux", Home: home, Dir: link}}
	h, _ := ByID("claude-code")
	_, p := m.plan(t, filepath.Join(t.TempDir(), "mcp.json"), Keep, h.Find(m.env)...)
	require.Equal(t, ActionAdd, item(t, p, "Claude Code", "mine").Action)
}
