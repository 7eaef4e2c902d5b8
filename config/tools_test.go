package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// Hosts have many keys for tools that are offered or hidden.
func TestTools(t *testing.T) {
	const server = `"command": "x", `
	for members, want := range map[string]mcpvisor.ToolFilter{
		`"disabledTools": ["write_file", "rm*"]`:                                  {Deny: []string{"write_file", "rm*"}},
		`"excludeTools": ["write_file"]`:                                          {Deny: []string{"write_file"}},
		`"enabledTools": ["read_*"]`:                                              {Allow: []string{"read_*"}},
		`"includeTools": ["read_*"]`:                                              {Allow: []string{"read_*"}},
		`"tools": ["*"]`:                                                          {Allow: []string{"*"}},
		`"tools": ["read", "list"], "disabledTools": ["list"]`:                    {Allow: []string{"read", "list"}, Deny: []string{"list"}},
		`"tools": {"allow": ["read"], "deny": ["x"]}`:                             {Allow: []string{"read"}, Deny: []string{"x"}},
		`"tools": {"read": true, "rm": false}`:                                    {Deny: []string{"rm"}},
		`"tools": {"rm": {"enabled": false}, "x": {"disabled": true}, "y": 1}`:    {Deny: []string{"rm", "x"}},
		`"tools": ["read_*", "list"], "enabledTools": ["read_file", "li*", "rm"]`: {Allow: []string{"list", "read_file"}},
		`"tools": ["$${HOST}", "${HOST}"]`:                                        {Allow: []string{"${HOST}", "h"}},
		`"disabledTools": null`:                                                   {},
	} {
		f, problems := readEntry(t, server+members)
		require.Empty(t, problems, members)
		require.Equal(t, want, f.Servers[0].Spec.Tools, members)
	}
}

func TestTools_not_a_list(t *testing.T) {
	f, problems := readEntry(t, `"command": "x", "tools": true`)
	require.Contains(t, problems, `warning: server "s": "tools" is ignored, because it is neither a list nor an object; write`)
	require.True(t, f.Servers[0].Spec.Tools.IsZero())
	_, problems = readEntry(t, `"command": "x", "disabledTools": "rm"`)
	require.Contains(t, problems, `server "s": "disabledTools" must be a list of strings`, "a tool that the user has hidden must not be offered")
	_, problems = readEntry(t, `"command": "x", "disabledTools": [""]`)
	require.Contains(t, problems, "a pattern is empty")
}

// An empty list allows no tool, whatever another list allows.
func TestTools_empty_list(t *testing.T) {
	for _, members := range []string{`"tools": []`, `"enabledTools": []`, `"enabledTools": [], "tools": ["*"]`, `"tools": ["a"], "enabledTools": ["b"]`} {
		f, problems := readEntry(t, `"command": "x", `+members)
		require.False(t, f.Servers[0].Spec.Tools.Allows("a"), members)
		require.Contains(t, problems+"no tool of this server is offered", "no tool of this server is offered")
	}
}

// Keys that list tools to call without asking have no effect. A warning says so
// once for each key of a file.
func TestApproval_keys(t *testing.T) {
	f, err := Parse([]byte(`{"mcpServers": {
		"off": {"command": "x", "autoApprove": ["z"], "disabled": true}, "none": {"command": "x", "autoApprove": []},
		"a": {"command": "x", "autoApprove": ["read"], "alwaysAllow": ["list"]},
		"b": {"command": "x", "alwaysAllow": ["read"]}
	}}`), "mcp.json")
	require.NoError(t, err)
	require.Len(t, f.Problems, 2, "once for each key")
	require.Contains(t, f.Problems[0].String(), `mcp.json:3:40: warning: server "a": "autoApprove" has no effect, in this entry`)
	require.Equal(t, `config mcp.json:3:65: warning: server "a": "alwaysAllow" has no effect, in this entry and all others, because `+
		`mcpvisor never asks before a call; to hide tools, list them in "disabledTools"`, f.Problems[1].String())
	require.Len(t, f.Specs(), 3)
	require.True(t, f.Servers[1].Spec.Tools.IsZero())
}
