package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What an entry would run or reach is shown as it is written, without its secrets.
func TestWrittenTarget(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json")
	for entry, want := range map[string]string{
		`{"command": "node", "args": ["${X}", "--key=canary"]}`:                 "node",
		`{"command": "${HOME}/bin/x", "env": {"A": "canary"}}`:                  "${HOME}/bin/x",
		`{"url": "https://u:canary@${HOST}:8080/${A}/mcp?k=canary"}`:            "https://${HOST}:8080/${A}/mcp",
		`{"url": "${input:url}"}`:                                               "${input:url}",
		`{"url": "https://${HOST:-canary.example}/${A:-canary}"}`:               "https://${HOST}/${A}",
		`{"url": "ftp://h/x", "disabled": true}`:                                "ftp://h/x",
		`{"httpUrl": "https://h/mcp", "url": "https://other/sse"}`:              "https://h/mcp",
		`{"url": "https://h:canary${PORT}/x"}`:                                  "(unreadable URL)",
		`{"url": "https://h/${A}${A}${A}${A}${A}${A}${A}${A}${A}${A}${B}${C}"}`: "https://h/${A}${A}${A}${A}${A}${A}${A}${A}${A}${A}${B}${C}",
		`{"comand": "x"}`: "", `{"command": 5}`: "", `5`: "",
	} {
		require.NoError(t, os.WriteFile(path, []byte(`{"mcpServers": {"one": `+entry+`}}`), 0o600))
		require.Equal(t, want, writtenTarget(path, "one"), entry)
	}
	require.Empty(t, writtenTarget(path, ""))
	require.Empty(t, writtenTarget(path, "two"))
	require.Empty(t, writtenTarget(path+"x", "one"))
}

// The target of an entry that makes no server is not the file, and not empty.
func TestDoctor_target_of_an_unusable_entry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"mcpServers": {"off": {"command": "off-server", "disabled": true},
		"lacks": {"command": "node", "args": ["${MCPVISOR_TEST_NOT_SET}"]}, "odd": {"comand": "x"}}}`), 0o600))
	out, code := runTool(t, "-c", path, "doctor")
	require.Equal(t, exitUsage, code)
	require.Regexp(t, `FAIL  lacks: .*is not set.*\n      target   node\nFAIL  odd: .*unknown key "comand".*\n(mcpvisor|$)`, out)
	out, _ = runTool(t, "-c", path, "config")
	require.Regexp(t, `(?m)^off +off-server +\S+:1 +disabled$`, out)
}
