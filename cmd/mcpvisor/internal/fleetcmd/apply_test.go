package fleetcmd

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/fleet"
)

// definitions reads texts as the files of apply.
func definitions(t *testing.T, texts ...string) (read configuration, warned string, err error) {
	t.Helper()
	var errs bytes.Buffer
	inv := &cli.Invocation{Context: t.Context(), Err: &errs}
	dir := t.TempDir()
	var paths []string
	for i, text := range texts {
		path := filepath.Join(dir, string(rune('a'+i))+".json")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		paths = append(paths, path)
	}
	read, err = readConfiguration(inv, paths)
	return read, errs.String(), err
}

// Definitions are the entries as they are written, with their references: nothing that these refer
// to is needed here, and no value of this machine is in them.
func TestApply_definitions(t *testing.T) {
	t.Setenv("FLEET_TEST_KEY", "value-of-this-machine")
	read, warned, err := definitions(t, `{
		// comments are allowed
		"mcpServers": {
			"docs": {"command": "${TOOLS_DIR}/docs", "env": {"KEY": "${FLEET_TEST_KEY}", "OTHER": "${file:/nowhere/key}", "THIRD": "${keyring:mcp/docs}"}, "exclusive": true, "node_labels": {"zone": "north"}},
			"off": {"command": "x", "disabled": true},
			"search": {"command": "x"},
		},
		"gateway": {"result_max": 5},
	}`, `{"mcpServers": {"search": {"url": "${SEARCH_URL}", "on_down": "5m", "retry": {"max_attempts": "unlimited", "base": "1s"}, "share": "shared", "standby": false}},
		"gateway": {"profiles": {"read": {"servers": ["docs"], /* a comment */ "tools": ["read_*"],}}}}`, `{"mcpServers": {}}`)
	require.NoError(t, err)
	require.Empty(t, warned)
	require.JSONEq(t, `{"profiles": {"read": {"servers": ["docs"], "tools": ["read_*"]}}}`, string(read.gateway), "of the last file that has it")
	all := read.servers
	require.Len(t, all, 2)
	require.Equal(t, fleet.Server{Name: "docs", Exclusive: true, Labels: map[string]string{"zone": "north"},
		Definition: json.RawMessage(`{"command":"${TOOLS_DIR}/docs","env":{"KEY":"${FLEET_TEST_KEY}","OTHER":"${file:/nowhere/key}","THIRD":"${keyring:mcp/docs}"},"exclusive":true,"node_labels":{"zone":"north"}}`)}, all[0])
	require.Equal(t, "search", all[1].Name)
	require.JSONEq(t, `{"url": "${SEARCH_URL}", "on_down": "5m", "retry": {"max_attempts": "unlimited", "base": "1s"}, "share": "shared", "standby": false}`, string(all[1].Definition))

	spec, err := fleet.ResolveDefinition("docs", json.RawMessage(`{"command": "x", "env": {"KEY": "${FLEET_TEST_KEY}"}, "node_labels": {"zone": "north"}}`), servers.NodeOptions...)
	require.NoError(t, err)
	require.Equal(t, "value-of-this-machine", spec.Stdio.Env["KEY"], "the node that runs it resolves references")
	spec, err = fleet.ResolveDefinition("docs", json.RawMessage(`{"command": "x", "after": ["search"]}`), servers.NodeOptions...)
	require.NoError(t, err)
	require.Equal(t, []string{"search"}, spec.After, "which may be on another node")
	_, err = fleet.ResolveDefinition("docs", json.RawMessage(`{"command": "x", "env": {"KEY": "${FLEET_TEST_MISSING}"}}`), servers.NodeOptions...)
	require.ErrorContains(t, err, `server "docs" cannot be used on this node: `)
	require.ErrorContains(t, err, "FLEET_TEST_MISSING")
}

// A secret that is written out is refused, with its place and with what to write.
func TestApply_refuses(t *testing.T) {
	const token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
	for name, one := range map[string]struct {
		text  string
		wants []string
	}{
		"a secret": {"{\"mcpServers\": {\n\"github\": {\n\"command\": \"x\",\n\"env\": {\"GITHUB_TOKEN\": \"" + token + "\"}}}}",
			[]string{`a.json:4: server "github": env.GITHUB_TOKEN is written out`, "${GITHUB_TOKEN}", "${file:", "${keyring:", "nothing was applied"}},
		"a header":  {`{"mcpServers": {"github": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ` + token + `"}}}}`, []string{`a.json:1: server "github": headers.Authorization is written out`, "${GITHUB_TOKEN}"}},
		"a default": {`{"mcpServers": {"github": {"command": "x", "env": {"TOKEN": "${TOKEN:-` + token + `}"}}}}`, []string{`env.TOKEN is written out`}},
		"an input": {"{\"inputs\": [{\"id\": \"k\", \"type\": \"promptString\", \"default\": \"d\"}],\n\"servers\": {\"a\": {\"command\": \"x\",\n\"env\": {\"K\": \"${input:k}\"}}}}",
			[]string{`a.json:3: server "a": ${input:…} asks a user`}},
		"an unusable entry":      {`{"mcpServers": {"a": {"comand": "x"}, "b": {"command": "y"}}}`, []string{`a.json:1:`, `unknown key "comand"`}},
		"a copy for each client": {"{\"mcpServers\": {\"a\": {\"command\": \"x\",\n\"share\": \"client\"}}}", []string{`a.json:2: server "a": "share": "client" starts a process for each client`}},
		"groups":                 {"{\"mcpServers\": {\"a\": {\"command\": \"x\"}},\n\"groups\": {\"g\": {\"members\": [\"a\"]}}}", []string{`a.json:2: "groups" start and restart servers of one machine together`, "remove them"}},
		"start":                  {`{"mcpServers": {"a": {"command": "x", "start": "lazy"}}}`, []string{`a.json:1: server "a": "start" lets the server rest`, "remove it"}},
		"idle_stop":              {`{"mcpServers": {"a": {"command": "x", "idle_stop": "1m"}}}`, []string{`a.json:1: server "a": "idle_stop" lets the server rest`}},
		"transient":              {`{"mcpServers": {"a": {"command": "x", "transient": true}}}`, []string{`a.json:1: server "a": "transient" lets the server rest`}},
		"a standby":              {`{"mcpServers": {"a": {"command": "x", "standby": true}}}`, []string{`a.json:1: server "a": "standby" keeps a second process started`}},
		"a bound of attempts":    {`{"mcpServers": {"a": {"command": "x", "retry": 3}}}`, []string{`server "a": "retry" bounds how often`, `{"max_attempts": "unlimited"}`}},
		"no attempts":            {`{"mcpServers": {"a": {"command": "x", "retry": false}}}`, []string{`server "a": "retry" bounds how often`}},
		"parking":                {`{"mcpServers": {"a": {"command": "x", "retry": {"max_attempts": "unlimited", "park": "1m"}}}}`, []string{`server "a": "retry" bounds how often`}},
		"an intensity":           {`{"mcpServers": {"a": {"command": "x", "retry": {"max_attempts": "unlimited", "intensity": {"restarts": 2, "window": "1m"}}}}}`, []string{`server "a": "retry" bounds how often`}},
		"records":                {"{\"mcpServers\": {\"a\": {\"command\": \"x\"}},\n\"records\": \"r\"}", []string{`a.json:2: "records" is a directory of one machine`, "--records DIR"}},
		"rules":                  {"{\"mcpServers\": {\"a\": {\"command\": \"x\"}},\n\"rules\": [{\"do\": \"deny\"}]}", []string{`a.json:2: "rules" are applied by mcpvisor run`}},
		"a journal":              {"{\"mcpServers\": {\"a\": {\"command\": \"x\"}},\n\"journal\": \"calls\"}", []string{`a.json:2: "journal" is a file of one machine`, "--journal FILE"}},
		"an unusable gateway":    {`{"mcpServers": {"a": {"command": "x"}}, "gateway": {"profiles": {"read": {"tool": ["x"]}}}}`, []string{`unknown key "gateway.profiles.read.tool"`}},
		"no server":              {`{"mcpServers": {}}`, []string{"no usable server"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := definitions(t, one.text)
			require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
			for _, want := range one.wants {
				require.ErrorContains(t, err, want)
			}
			require.NotContains(t, err.Error(), token)
		})
	}
}

// What changes is said by name. Spaces in a definition change nothing.
func TestApply_difference(t *testing.T) {
	server := func(name, definition string) fleet.Server {
		return fleet.Server{Name: name, Definition: json.RawMessage(definition)}
	}
	got := difference(configuration{servers: []fleet.Server{server("same", `{"command":"x"}`), server("changed", `{"command":"x"}`), server("gone", `{}`), server("labels", `{}`)}, gateway: json.RawMessage(`{"a":1}`)},
		configuration{servers: []fleet.Server{server("same", `{"command": "x"}`), server("changed", `{"command":"y"}`), server("new", `{}`), {Name: "labels", Labels: map[string]string{"a": "b"}, Definition: json.RawMessage(`{}`)}}, gateway: json.RawMessage(`{"a":2}`)})
	require.Equal(t, applied{Added: []string{"new"}, Changed: []string{"changed", "labels"}, Removed: []string{"gone"}, Unchanged: 1, Gateway: "changed"}, got)
	var out bytes.Buffer
	got.DryRun, got.Generation = true, 3
	require.NoError(t, got.print(&cli.Invocation{Out: &out}))
	require.Equal(t, "added    new\nchanged  changed, labels\nremoved  gone\ngateway  changed\nunchanged  1 server\nnothing was written; the fleet is at generation 3\n", out.String())
}
