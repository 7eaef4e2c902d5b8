package hosts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/config"
)

// planOf plans the import of one host's file.
func planOf(t *testing.T, id, text string) (written string, p *Plan) {
	t.Helper()
	home := t.TempDir()
	e := Environment{OS: "linux", Home: home, Dir: t.TempDir()}
	h, ok := ByID(id)
	require.True(t, ok)
	path := h.Paths(e)[0]
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	m := &machine{env: e}
	target, p := m.plan(t, filepath.Join(t.TempDir(), "mcp.json"), Keep, h.Find(e)...)
	return string(target.Bytes()), p
}

// What is likely a secret is neither written nor shown, and ordinary values stay.
func TestPlan_likely_secrets(t *testing.T) {
	written, p := planOf(t, "cursor", `{"mcpServers": {
		"a": {"command": "psql-server", "args": ["--profile", "work", "-port", "8080", "--webhook=https://chat.example/webhooks/1/hookC"],
			"env": {"WEBHOOK": "https://hooks.slack.com/services/T000/B000/hookD", "SESSION": "plainsessionE", "LICENSE": "licenseF-F", "BASIC": "dXNlcjpwYXNzd29yZA==",
				"LOGIN": "bG9naW46Z2dnZ2c=", "SESSION_TIMEOUT": "360000", "LICENSE_FILE": "/etc/license.txt", "MODEL": "claude-3-5-sonnet-20241022", "REGION": "us-east-1"}},
		"b": {"url": "https://h.example/mcp", "headers": {"X-Session": "headersessionG", "X-Region": "eu-central"}},
		"c": {"command": "npx", "args": ["-y", "-p", "@scope/server-name@1.2.3", "server-name", "--hooks", "./hooks"]}
	}}`)
	shown := ""
	for _, i := range p.Items {
		require.Equal(t, ActionAdd, i.Action)
		shown += i.Target
	}
	for _, secret := range []string{"hookC", "hookD", "sessionE", "licenseF", "dXNlcj", "bG9naW", "sessionG"} {
		require.NotContains(t, written, secret)
		require.NotContains(t, shown, secret)
	}
	for _, plain := range []string{`"work"`, `"8080"`, `"360000"`, "/etc/license.txt", "claude-3-5-sonnet-20241022", "us-east-1", "eu-central", "@scope/server-name@1.2.3", "./hooks"} {
		require.Contains(t, written, plain)
	}
	require.Len(t, p.Variables, 7)
}

// A text that a host does not replace is not replaced later either.
func TestPlan_literal_text(t *testing.T) {
	for id, text := range map[string]string{
		"claude-desktop": `{"mcpServers": {"a": {"command": "x", "args": ["${PATHX:-d}", "a${HOME}b", "${file:/tmp/f.txt}", "$$${X}"]}}}`,
		"zed":            `{"context_servers": {"a": {"command": "x", "args": ["${PATHX:-d}", "a${HOME}b", "${file:/tmp/f.txt}", "$$${X}"]}}}`,
		"codex":          "[mcp_servers.a]\ncommand = \"x\"\nargs = [\"${PATHX:-d}\", \"a${HOME}b\", \"${file:/tmp/f.txt}\", \"$$${X}\"]\nenv_vars = [\"MINE\"]\n",
	} {
		written, p := planOf(t, id, text)
		require.Contains(t, item(t, p, p.Items[0].Host, "a").Notes[0], "${ is written as $${, because ")
		f, err := config.Parse([]byte(written), "mcp.json", config.WithLookup(func(string) (string, bool) { return "replaced", true }))
		require.NoError(t, err)
		s, ok := f.Find("a")
		require.True(t, ok, "%v", f.Problems)
		require.Equal(t, []string{"${PATHX:-d}", "a${HOME}b", "${file:/tmp/f.txt}", "$$${X}"}, s.Spec.Stdio.Args)
		require.Equal(t, id == "codex", s.Spec.Stdio.Env["MINE"] == "replaced")
	}
	written, p := planOf(t, "cursor", `{"mcpServers": {"a": {"command": "x", "args": ["${HOME}"]}}}`)
	require.Contains(t, written, `"${HOME}"`)
	require.Empty(t, p.Items[0].Notes)
}
