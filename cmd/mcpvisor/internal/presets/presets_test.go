package presets

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/config"
)

// The loader accepts the entry of every preset, without a warning.
func TestPresets(t *testing.T) {
	require.Len(t, Names(), len(All()))
	for _, p := range All() {
		require.NotEmpty(t, p.Summary, p.Name)
		var args []string
		if p.Args != "" {
			args = []string{"."}
		}
		entry, err := p.Entry(args, "/h")
		require.NoError(t, err)
		text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{p.Name: entry}})
		require.NoError(t, err)
		f, err := config.Parse(text, "x.json", config.WithLookup(func(name string) (string, bool) {
			require.Contains(t, p.Variables, name, "the variables of the entry are those that the preset names")
			return "value", true
		}))
		require.NoError(t, err)
		require.Empty(t, f.Problems, p.Name)
		require.Equal(t, p.Name, f.Servers[0].Spec.Name)
		require.Equal(t, p.Authorizes(), strings.Contains(string(text), `"auth"`))
	}
}

func TestEntry(t *testing.T) {
	filesystem, ok := Find("filesystem")
	require.True(t, ok)
	entry, err := filesystem.Entry([]string{"~/notes", "~", "/srv/../x", "${DIR}"}, "/h")
	require.NoError(t, err)
	here, err := filepath.Abs("")
	require.NoError(t, err)
	require.Equal(t, []string{"-y", "@modelcontextprotocol/server-filesystem", filepath.FromSlash("/h/notes"), filepath.FromSlash("/h"), filepath.FromSlash("/x"), filepath.Join(here, "$${DIR}")}, entry.Get("args"))
	git, _ := Find("git")
	entry, err = git.Entry([]string{"/r"}, "/h")
	require.NoError(t, err)
	require.Equal(t, []string{"mcp-server-git", "--repository", filepath.FromSlash("/r")}, entry.Get("args"))

	for name, args := range map[string][]string{"filesystem": nil, "git": {"a", "b"}, "memory": {"a"}, "github": {"x"}} {
		p, _ := Find(name)
		_, err := p.Entry(args, "/h")
		require.Error(t, err, name)
	}
	_, ok = Find("nothing")
	require.False(t, ok)
}
