//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// Doctor says that a message has no line end, and does not say that the server wrote nothing.
func TestDoctor_message_without_line_end(t *testing.T) {
	for name, end := range map[string]string{"none": "", "carriage return": `\r`} {
		t.Run(name, func(t *testing.T) {
			path := serversFile(t, map[string]any{"one": map[string]any{"command": "sh", "args": []string{"-c", `read -r line; printf '{"jsonrpc":"2.0","id":1,"result":{}}` + end + `'; cat >/dev/null`},
				"timeouts": map[string]any{"start": "2s"}, "retry": "none"}})
			out := toolExits(t, cli.ExitUnavailable, "-c", path, "doctor")
			require.Contains(t, out, "bytes without a line end to its stdout")
			require.Contains(t, out, "it ends its messages without a line feed")
			require.NotContains(t, out, "wrote nothing")
		})
	}
}

// A server that does not declare tools is not asked for them; doctor, status and the error of a call say so.
func TestDoctor_capability_is_not_declared(t *testing.T) {
	for name, s := range map[string]mcptest.Script{"nothing": {NoTools: true, NoResources: true, NoPrompts: true}, "prompts": {NoTools: true}} {
		t.Run(name, func(t *testing.T) {
			path := configFile(t, s)
			out := toolExits(t, cli.ExitOK, "-c", path, "doctor")
			require.Contains(t, out, `no tools, because it does not declare the capability "tools"`)
			out, _ = runTool(t, "-c", path, "--json", "status")
			if name == "nothing" {
				require.Contains(t, out, "declares neither tools, resources nor prompts")
			}
			out, _ = runTool(t, "-c", path, "call", "one/echo", `{"text":"x"}`)
			require.Contains(t, out, `does not declare the capability "tools"`)
		})
	}
}

// runByNPX is an entry that starts a server by a program named npx, after what before does in a folder.
func runByNPX(t *testing.T, before string) map[string]any {
	t.Helper()
	e := entry(mcptest.Script{})
	dir := t.TempDir()
	program := filepath.Join(dir, "npx")
	testutil.WriteProgram(t, program, []byte("#!/bin/sh\n"+before+"\nexec "+strconv.Quote(e["command"].(string))+` "$@"`))
	e["command"] = program
	e["env"].(map[string]string)["FOLDER"] = dir
	return e
}

// Doctor tries servers of package runners that have failed beside others again, one by one: those that npx has
// installed together may have failed for that.
func TestDoctor_tries_again(t *testing.T) {
	const once = `for era in 1 2; do mkdir "$FOLDER/$era" 2>/dev/null && { echo "Error: Cannot find package 'zod'" >&2; exit 1; }; done`
	const always = `echo start >>"$FOLDER/starts"; echo "Error: no licence" >&2; exit 1`
	broken := runByNPX(t, always)
	out := toolExits(t, cli.ExitUnavailable, "-c", serversFile(t, map[string]any{"one": runByNPX(t, once), "two": runByNPX(t, once), "good": entry(mcptest.Script{}), "broken": broken}), "doctor")
	require.Regexp(t, `(?m)^FAIL  broken: Error: no licence`, out)
	for _, name := range []string{"one", "two"} {
		require.Regexp(t, `(?m)^ok    `+name+`: .*\n +warning  it failed at first, when it was started beside other servers: .*Cannot find package 'zod'`, out)
	}
	starts, err := os.ReadFile(filepath.Join(broken["env"].(map[string]string)["FOLDER"], "starts"))
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("start\n", 4), string(starts), "it is tried twice, each time in both eras")

	out = toolExits(t, cli.ExitUnavailable, "-c", serversFile(t, map[string]any{"one": runByNPX(t, once)}), "doctor")
	require.NotContains(t, out, "tried again", "it was alone")
}
