package config

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// "tools" has a setting for each tool, beside other hosts' values.
func TestToolSettings(t *testing.T) {
	text := `{"mcpServers": {"s": {"command": "x", "tools": {
		"search": {"name": "find", "description": "Looks.", "fixed": {"org": "${ORG}", "deep": {"a": [1, "${ORG}", null]}}, "defaults": {"limit": 20}, "timeout": "5m"},
		"list": {"timeout": 90, "enabled": true}, "gone": {"name": "away", "hidden": true}, "off": {"enabled": false}, "no": false,
		"theirs": {"approval_mode": "auto"}, "yes": true, "deny": ["x*"]}}}}`
	f := mustParse(t, []byte(text), "x.json", env(map[string]string{"ORG": "acme"}))
	checkSchema(t, []byte(text), f)
	require.Empty(t, f.Problems)
	spec := f.Servers[0].Spec
	require.Equal(t, map[string]mcpvisor.ToolSetting{
		"search": {Name: "find", Description: "Looks.", Timeout: 5 * time.Minute, Defaults: map[string]json.RawMessage{"limit": json.RawMessage(`20`)},
			Fixed: map[string]json.RawMessage{"org": json.RawMessage(`"acme"`), "deep": json.RawMessage(`{"a":[1,"acme",null]}`)}},
		"list": {Timeout: 90 * time.Second},
	}, spec.ToolSettings)
	require.Equal(t, []string{"gone", "off", "no", "x*"}, spec.Tools.Deny)
}

func TestToolSettings_rejected(t *testing.T) {
	for tools, says := range map[string]string{
		`{"a": {"name": "x"}, "b": {"name": "x"}}`:         `"a" and "b" are both called "x"`,
		`{"a": {"name": "x y"}}`:                           `the name "x y" of tool "a" is not one`,
		`{"a": {"name": 7}}`:                               `"tools.a.name" must be a string`,
		`{"a": {"fixed": []}}`:                             `"tools.a.fixed" must be an object`,
		`{"a": {"fixed": {"b": "${NOT_SET}"}}}`:            `in "tools.a.fixed.b": environment variable NOT_SET`,
		`{"a": {"fixed": {"b": 1, "b": 2}}}`:               `"tools.a.fixed.b" is set twice`,
		`{"a": {"fixed": {"b": 1}, "defaults": {"b": 2}}}`: `is fixed, so it has no default`,
		`{"a": {"timeout": "soon"}}`:                       `"tools.a.timeout" must be a duration`,
		`{"a": {"timeout": -1}}`:                           `the timeout of tool "a" is negative`,
		`{"a": {"hidden": "yes"}}`:                         `"tools.a.hidden" must be true or false`,
		`{"a": {"nam": "x", "timeout": 1}}`:                `unknown key "tools.a.nam" is ignored; did you mean "name"?`,
		`{"allow": ["a"], "a": {"name": "b"}}`:             `"a" is called "b", so the pattern matches no tool; write that name`,
	} {
		f, problems := readEntry(t, `"command": "x", "tools": `+tools)
		require.Contains(t, problems, says, tools)
		require.Len(t, f.Problems, 1)
	}
}

// Two servers whose tools are given one name clash where names have no prefix.
func TestToolSettings_share_a_name(t *testing.T) {
	f, err := Parse([]byte(`{"gateway": {"names": {"prefix": "never"}}, "mcpServers": {"a": {"command": "x", "tools": {"t": {"name": "find"}}}, "b": {"command": "y", "tools": {"u": {"name": "find"}}}}}`), "x.json")
	require.NoError(t, err)
	require.Len(t, f.Problems, 1)
	require.Contains(t, f.Problems[0].Message, `the servers "a" and "b" both offer the tool "find"`)
}
