//go:build unix

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// Doctor says that a message has no line end, and does not say that the server wrote nothing.
func TestDoctor_message_without_line_end(t *testing.T) {
	for name, end := range map[string]string{"none": "", "carriage return": `\r`} {
		t.Run(name, func(t *testing.T) {
			path := entryFile(t, map[string]any{"command": "sh", "args": []string{"-c", `read -r line; printf '{"jsonrpc":"2.0","id":1,"result":{}}` + end + `'; cat >/dev/null`},
				"timeouts": map[string]any{"start": "2s"}, "retry": "none"})
			out, code := runTool(t, "-c", path, "doctor")
			require.Equal(t, cli.ExitUnavailable, code, out)
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
			out, code := runTool(t, "-c", path, "doctor")
			require.Equal(t, cli.ExitOK, code, out)
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
