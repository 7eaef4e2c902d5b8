package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/settings"
)

func parseGateway(t *testing.T, gateway string) *File {
	t.Helper()
	text := `{"servers": {"files": {"command": "x"}, "git": {"command": "y", "on_down": "withdraw", "share": "client"}}, "gateway": ` + gateway + `}`
	f, err := Parse([]byte(text), "mcp.json", env(map[string]string{"T": "read_*"}))
	require.NoError(t, err)
	checkSchema(t, []byte(text), f)
	return f
}

func TestGateway(t *testing.T) {
	f := parseGateway(t, `{
		"on_down": "30s", "result_max": 50000, "max_copies": 9, "max_copies_per_principal": 3, "max_held_mib": 4096, "max_held_mib_per_principal": 16, "names": {"prefix": "conflict", "host_prefix": ""},
		"profiles": {
			"review": {"servers": ["git", "f*"], "tools": {"allow": ["${T}"], "deny": ["files/*"]}, "prompts": [], "resources": null,
				"annotations": {"readOnlyHint": true, "destructiveHint": false}},
			"all": {"tools": {"allow": [], "deny": ["x"]}},
		}}`)
	require.Empty(t, f.Problems)
	yes, no, grace, withdraw := true, false, settings.OnDown(30*time.Second), settings.Withdraw
	require.Equal(t, &Gateway{Settings: settings.Settings{OnDown: &grace, Names: &settings.Names{Prefix: settings.PrefixOnConflict}, MaxResultBytes: 50000, MaxCopies: 9, MaxCopiesOfPrincipal: 3, MaxHeldByAll: 4 << 30, MaxHeldByPrincipal: 16 << 20, Profiles: map[string]settings.Profile{
		"review": {Servers: mcpvisor.ToolFilter{Allow: []string{"git", "f*"}}, Tools: mcpvisor.ToolFilter{Allow: []string{"read_*"}, Deny: []string{"files/*"}},
			Prompts: mcpvisor.ToolFilter{Allow: []string{}, Deny: []string{"*"}}, Annotations: settings.Annotations{ReadOnly: &yes, Destructive: &no}},
		"all": {Tools: mcpvisor.ToolFilter{Allow: []string{}, Deny: []string{"*", "x"}}},
	}}}, f.Gateway)
	require.Nil(t, f.Servers[0].OnDown)
	require.Equal(t, &withdraw, f.Servers[1].OnDown)
	require.Equal(t, []settings.Share{"", settings.ShareClient}, []settings.Share{f.Servers[0].Share, f.Servers[1].Share})
	require.Equal(t, settings.ShareClient, parseEntry(t, t.TempDir(), map[string]any{"command": "x", "share": "client"}).Share)
	require.Nil(t, parseEntry(t, t.TempDir(), map[string]any{"command": "x"}).OnDown)

	f, err := Parse([]byte(`{"servers": {"x": {"command": "x", "share": "all"}}}`), "mcp.json")
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(f.Problems), `"share" is "all"; use "shared" or "client"`)
	f, err = Parse([]byte(`{"servers": {"x": {"command": "x", "share": "client", "exclusive": true}}}`), "mcp.json")
	require.NoError(t, err)
	require.Empty(t, f.Servers)
	require.Len(t, f.Problems, 1)
	require.Contains(t, fmt.Sprint(f.Problems), `"share": "client" starts a process for each client, and "exclusive" allows one`)
	require.Len(t, f.Unusable, 1)
	f, err = Parse([]byte(`{"servers": {}}`), "mcp.json")
	require.NoError(t, err)
	require.Nil(t, f.Gateway)
}

// What is wrong with "gateway" is an error with its place and what to write, and nothing of it is
// used: a profile that is read in part would offer more than it says.
func TestGateway_problems(t *testing.T) {
	for gateway, says := range map[string]string{
		`7`:                                                           `"gateway" must be an object`,
		`{"profile": {}}`:                                             `unknown key "gateway.profile"; did you mean "profiles"?`,
		`{"on_down": "forget"}`:                                       `"gateway.on_down" must be "keep", "withdraw" or a duration; write "keep", "withdraw" or "30s"`,
		`{"on_down": -1}`:                                             `"gateway.on_down" must be "keep"`,
		`{"names": {"prefix": "sometimes"}}`:                          `"gateway.names.prefix" is "sometimes"; use "always", "conflict" or "never"`,
		`{"max_held_mib": "64"}`:                                      `"gateway.max_held_mib" must be a whole number from 0 to 2147483647`,
		`{"max_held_mib_per_principal": -1}`:                          `"gateway.max_held_mib_per_principal" must be a whole number from 0`,
		`{"result_max": -1}`:                                          `"gateway.result_max" must be a whole number`,
		`{"profiles": []}`:                                            `"gateway.profiles" must be an object; write {"review": {"tools": ["read_*"]}}`,
		`{"profiles": {"p": ["x"]}}`:                                  `"gateway.profiles.p" must be an object; write {"tools": ["read_*"]}`,
		`{"profiles": {"a/b": {}}}`:                                   `the name of "gateway.profiles.a/b" cannot be part of a path; use letters, digits, - and _`,
		`{"profiles": {"p": {"tool": ["x"]}}}`:                        `unknown key "gateway.profiles.p.tool"; did you mean "tools"?`,
		`{"profiles": {"p": {"tools": {"alow": ["x"]}}}}`:             `unknown key "gateway.profiles.p.tools.alow"; did you mean "allow"?`,
		`{"profiles": {"p": {"tools": "x"}}}`:                         `"gateway.profiles.p.tools" must be a list of strings; write ["…", "…"]`,
		`{"profiles": {"p": {"tools": [7]}}}`:                         `"gateway.profiles.p.tools[0]" must be a string`,
		`{"profiles": {"p": {"tools": [""]}}}`:                        `the pattern "gateway.profiles.p.tools[0]" is empty and matches nothing; remove it, or write "*" for all`,
		`{"profiles": {"p": {"tools": {"deny": ["x", "[a-z]"]}}}}`:    `the pattern "[a-z]" of "gateway.profiles.p.tools.deny[1]" has a '[', which would stand for itself; only * and ? are special`,
		`{"profiles": {"p": {"servers": ["git/log"]}}}`:               `the pattern "git/log" of "gateway.profiles.p.servers[0]" has a slash, and names of servers have none; put it into "tools", as in "files/read_*"`,
		`{"profiles": {"p": {"annotations": {"readOnly": true}}}}`:    `unknown key "gateway.profiles.p.annotations.readOnly"; use one of readOnlyHint, destructiveHint, idempotentHint, openWorldHint`,
		`{"profiles": {"p": {"annotations": {"readOnlyHint": "y"}}}}`: `"gateway.profiles.p.annotations.readOnlyHint" must be true or false`,
		`{"profiles": {"p": {"tools": ["${NOT_SET}"]}}}`:              `NOT_SET`,
	} {
		f := parseGateway(t, gateway)
		require.Len(t, f.Problems, 1, "%s: %v", gateway, f.Problems)
		require.Equal(t, SeverityError, f.Problems[0].Severity)
		require.Contains(t, f.Problems[0].String(), "config mcp.json:1:", gateway)
		require.Contains(t, f.Problems[0].Message, says, gateway)
		require.True(t, f.Gateway.Broken)
		require.Len(t, f.Servers, 2, "the servers are used")
	}
	f, err := Parse([]byte(`{"servers": {}, "gateway": {}, "gateway": {}}`), "mcp.json")
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(f.Problems), `"gateway" is there twice`)
	require.True(t, f.Gateway.Broken)
}

// A server that no file has is a warning: it may come later.
func TestGateway_unknown_server(t *testing.T) {
	f := parseGateway(t, `{"profiles": {"p": {"servers": ["gti", "x*"]}}}`)
	require.Len(t, f.Problems, 1)
	require.Equal(t, `config mcp.json:1:152: warning: no server is called "gti", which "gateway.profiles.p.servers[0]" names; did you mean "git"?`, f.Problems[0].String())
	require.False(t, f.Gateway.Broken)
}

// Names that collide without those of their servers are an error, as far as the entries name their
// tools.
func TestGateway_collision(t *testing.T) {
	for _, row := range []struct{ prefix, a, b, says string }{
		{"never", `["read", "x"]`, `["read"]`, `the servers "a" and "b" both offer the tool "read" (mcp.json:2), which without their names is one; hide it in one of them, or write "conflict"`},
		{"conflict", `["read"]`, `["read"]`, ""}, {"always", `["read"]`, `["read"]`, ""},
		{"never", `["read"]`, `["write"]`, ""}, {"never", `["read*"]`, `["read"]`, ""}, {"never", `["read"]`, `{"allow": ["read"], "deny": ["r*"]}`, ""},
	} {
		text := `{"gateway": {"names": {"prefix": "` + row.prefix + `"}}, "servers": {"a": {"command": "x", "tools": ` + row.a + `},
"b": {"command": "x", "tools": ` + row.b + `}, "off": {"disabled": true, "command": "x", "tools": ["x"]}}}`
		f, err := Parse([]byte(text), "mcp.json")
		require.NoError(t, err)
		require.Equal(t, row.says != "", f.Gateway.Broken, text)
		if row.says != "" {
			require.Len(t, f.Problems, 1)
			require.Equal(t, "config mcp.json:1:34: "+row.says, f.Problems[0].String())
		}
	}
}

// Of several files the last one with the key counts, as a whole; the others are not read.
func TestLoadFiles_gateway(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	for i, gateway := range []string{`, "gateway": {"nonsense": 1}`, `, "gateway": {"result_max": 1, "profiles": {"p": {"servers": ["later"]}}}`, ``} {
		path := filepath.Join(dir, fmt.Sprint(i))
		servers := `{}`
		if i == 2 {
			servers = `{"later": {"command": "x"}}`
		}
		require.NoError(t, os.WriteFile(path, []byte(`{"servers": `+servers+gateway+`}`), 0o600))
		paths = append(paths, path)
	}
	f, err := LoadFiles(paths)
	require.NoError(t, err)
	require.Empty(t, f.Problems)
	require.Equal(t, 1, f.Gateway.MaxResultBytes)
}

// Each row of the tables of "gateway" has an example that is read, and that the schema accepts.
func TestGateway_keys(t *testing.T) {
	for _, table := range []struct {
		keys []Key
		text string
	}{{flatten(nil, "", gatewayRows), `KEY`}, {flatten(nil, "", profileRows), `{"profiles": {"p": KEY}}`}} {
		for _, k := range table.keys {
			require.NotEmpty(t, k.Meaning)
			require.True(t, json.Valid([]byte(k.Example)), k.Name)
			value := k.Example
			parts := strings.Split(k.Name, ".")
			for i := len(parts) - 1; i >= 0; i-- {
				value = `{"` + parts[i] + `": ` + value + `}`
			}
			f := parseGateway(t, strings.ReplaceAll(table.text, "KEY", value))
			require.Empty(t, f.Problems, k.Name)
			require.NotEqual(t, &Gateway{}, f.Gateway, k.Name)
		}
	}
}
