package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// The keys of other hosts for tools that are switched on and off.
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

func TestToolsThatAreNoLists(t *testing.T) {
	f, problems := readEntry(t, `"command": "x", "tools": true`)
	require.Contains(t, problems, `warning: server "s": "tools" is not used; write a list`)
	require.True(t, f.Servers[0].Spec.Tools.IsZero())
	_, problems = readEntry(t, `"command": "x", "disabledTools": "rm"`)
	require.Contains(t, problems, `server "s": a list of strings is expected here`, "a tool that its user switched off is not offered by mistake")
	_, problems = readEntry(t, `"command": "x", "disabledTools": [""]`)
	require.Contains(t, problems, "a pattern is empty")
}

// A list that is empty allows nothing, whatever another one allows.
func TestToolsThatAreEmptyLists(t *testing.T) {
	for _, members := range []string{`"tools": []`, `"enabledTools": []`, `"enabledTools": [], "tools": ["*"]`, `"tools": ["a"], "enabledTools": ["b"]`} {
		f, problems := readEntry(t, `"command": "x", `+members)
		require.False(t, f.Servers[0].Spec.Tools.Allows("a"), members)
		require.Contains(t, problems+"no tool of this server is offered", "no tool of this server is offered")
	}
}

// What other hosts are told about consent is said once to have no effect.
func TestApprovalsHaveNoEffect(t *testing.T) {
	f, err := Parse([]byte(`{"mcpServers": {
		"off": {"command": "x", "autoApprove": ["z"], "disabled": true}, "none": {"command": "x", "autoApprove": []},
		"a": {"command": "x", "autoApprove": ["read"], "alwaysAllow": ["list"]},
		"b": {"command": "x", "alwaysAllow": ["read"]}
	}}`), "mcp.json")
	require.NoError(t, err)
	require.Len(t, f.Problems, 2, "once for each key")
	require.Contains(t, f.Problems[0].String(), `mcp.json:3:40: warning: server "a": "autoApprove" has no effect here`)
	require.Equal(t, `mcp.json:3:65: warning: server "a": "alwaysAllow" has no effect here, in this entry and all others: `+
		`mcpvisor never asks before a call; to switch tools off, list them in "disabledTools"`, f.Problems[1].String())
	require.Len(t, f.Specs(), 3)
	require.True(t, f.Servers[1].Spec.Tools.IsZero())
}
