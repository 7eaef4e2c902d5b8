package config

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/configkeys"
)

// Keys of other hosts that change what happens are errors that say what the server would lack. A value that asks for
// nothing is no problem.
func TestUnsupportedKeys(t *testing.T) {
	all := configkeys.AllUnsupported()
	require.NotEmpty(t, all)
	for _, u := range all {
		for _, key := range u.Names {
			for _, value := range []string{`"x"`, `true`, `{"a": "b"}`, `["a"]`} {
				f, problems := readEntry(t, fmt.Sprintf(`"command": "x", %q: %s`, key, value))
				require.Contains(t, problems, fmt.Sprintf("server \"s\": %q is not supported here: %s", key, u.Lacks))
				require.NotContains(t, problems, "remove it")
				require.Empty(t, f.Servers)
			}
			for _, value := range []string{`null`, `false`, `{}`} {
				f, problems := readEntry(t, fmt.Sprintf(`"command": "x", %q: %s`, key, value))
				require.Empty(t, problems)
				require.Len(t, f.Servers, 1)
			}
		}
	}
}

// The keys of Codex and others mean what they mean there.
func TestForeignKeys(t *testing.T) {
	values := env(map[string]string{"TOKEN": "t0k", "TEAM": "red", "SET": "1"})
	f := mustParse(t, []byte(`{"mcpServers": {"web": {"url": "https://h/mcp", "http_headers": {"X-A": "b"}, "env_http_headers": {"X-Team": "TEAM"},
		"bearer_token_env_var": "TOKEN", "startup_timeout_sec": 20, "tool_timeout_sec": 45.5, "enabled_tools": ["a"], "disabled_tools": ["b"]},
		"cli": {"command": "x", "env_vars": ["SET", "NOT_SET"], "environment": {"OWN": "2"}},
		"off": {"command": "x", "isActive": false},
		"open": {"type": "local", "command": ["npx", "-y", "some server"], "args": ["--last"]}}}`), "x.json", values)
	require.Empty(t, f.Problems)
	web := f.Servers[0].Spec
	require.Equal(t, map[string]string{"X-A": "b", "X-Team": "red", "Authorization": "Bearer t0k"}, web.HTTP.Headers)
	require.Equal(t, 20*time.Second, web.Timeouts.Start)
	require.Equal(t, 45500*time.Millisecond, web.Timeouts.Call)
	require.Equal(t, []string{"a"}, web.Tools.Allow)
	require.Equal(t, []string{"b"}, web.Tools.Deny)
	require.Equal(t, map[string]string{"SET": "1", "OWN": "2"}, f.Servers[1].Spec.Stdio.Env)
	require.True(t, f.Servers[2].Disabled)
	require.Equal(t, "npx", f.Servers[3].Spec.Stdio.Command, "a list of OpenCode")
	require.Equal(t, []string{"-y", "some server", "--last"}, f.Servers[3].Spec.Stdio.Args)
}

// A header comes from one key, and its variable must have a name and be set.
func TestForeignKeys_rejected(t *testing.T) {
	for members, says := range map[string]string{
		`"headers": {"authorization": "x"}, "bearer_token_env_var": "TOKEN"`: `two keys set the header "Authorization"; remove one of them`,
		`"env_http_headers": {"X-A": "TOKEN", "x-a": "TOKEN"}`:               `two keys set the header "x-a"`,
		`"bearer_token_env_var": "MISSING"`:                                  `environment variable MISSING`,
		`"bearer_token_env_var": "input:x"`:                                  `is not the name of a variable`,
		`"env_http_headers": {"X-A": "${TOKEN}"}`:                            `is not the name of a variable`,
		`"bearer_token_env_var": ""`:                                         `is not the name of a variable`,
	} {
		f := mustParse(t, []byte(`{"mcpServers": {"s": {"url": "https://h/mcp", `+members+`}}}`), "x.json", env(map[string]string{"TOKEN": "t"}))
		require.Len(t, f.Problems, 1, members)
		require.Contains(t, f.Problems[0].String(), says)
		require.Empty(t, f.Servers)
	}
}
