package hosts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/configfile"
)

// Variables that a host's file names, without a value, have to be set as well.
func TestPlan_lists_variables_that_entries_refer_to(t *testing.T) {
	dir := t.TempDir()
	codex, claude := filepath.Join(dir, "config.toml"), filepath.Join(dir, "claude.json")
	require.NoError(t, os.WriteFile(codex, []byte(`[mcp_servers.figma]
url = "https://figma.example/mcp"
bearer_token_env_var = "FIGMA_TOKEN"
env_http_headers = { "X-Team" = "FIGMA_TEAM", "X-Known" = "KNOWN" }
[mcp_servers.local]
command = "local"
env_vars = ["OPTIONAL"]
[mcp_servers.refused]
bearer_token_env_var = "NEVER"
`), 0o600))
	require.NoError(t, os.WriteFile(claude, []byte(`{"mcpServers": {"team": {"command": "team", "args": ["${workspaceFolder}", "$${LITERAL}", "${env:FIGMA_TEAM}"],
		"env": {"FIGMA_TOKEN": "figd_0123456789abcdefghijABCDEFGHIJ"}}}}`), 0o600))
	source := func(id, path string) Source {
		host, ok := ByID(id)
		require.True(t, ok)
		return Source{Host: host, Path: path}
	}
	m := newMachine(t, "linux")
	target, err := configfile.Open(filepath.Join(dir, "mcp.json"))
	require.NoError(t, err)
	p, err := NewPlan(target, []Source{source("codex", codex), source("cursor", claude)}, m.env, Keep, func(name string) (string, bool) { return "", name == "KNOWN" })
	require.NoError(t, err)
	names := map[string][]string{}
	for _, v := range p.Variables {
		names[v.Name] = v.For
		require.False(t, v.Set)
	}
	require.Equal(t, map[string][]string{
		"FIGMA_TOKEN":      {"a reference of figma (Codex " + codex + ":1)"},
		"FIGMA_TEAM":       {"a reference of figma (Codex " + codex + ":1)", "a reference of team (Cursor " + claude + ":1)"},
		"TEAM_FIGMA_TOKEN": {"env.FIGMA_TOKEN of team (Cursor " + claude + ":1)"},
	}, names, "one name never stands for two values")
}
