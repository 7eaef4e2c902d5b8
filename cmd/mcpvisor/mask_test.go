package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// Servers may repeat in their lists what they were given. The commands and the page hide that, and a value
// that has it can be sent anyway.
func TestLists_hide_secrets(t *testing.T) {
	t.Setenv("PATHX", secretText)
	secretFile := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secretFile, []byte("From-a-file-4711"), 0o600))
	const about = "Uses " + secretText + " and From-a-file-4711."
	server := entry(mcptest.Script{
		Tools: []mcptest.ToolDef{{Name: "t", Description: about, Text: "ok", InputSchema: json.RawMessage(
			`{"type":"object","properties":{"key":{"enum":["From-a-file-4711"]}}}`)}},
		Prompts: []mcptest.PromptDef{{Name: "p", Description: about}},
	})
	env, _ := server["env"].(map[string]string)
	env["THE_TOKEN"], env["OTHER"] = "${PATHX}", "${file:"+secretFile+"}"
	b := startRun(t, map[string]any{"one": server}, "run", "--http", "127.0.0.1:0")
	page := pageOf(b)
	b.await(" ready  ")
	for _, path := range []string{"api/servers/one/tools", "api/search?q=uses"} {
		_, body := request(t, http.MethodGet, page+path, "")
		require.Contains(t, body, "Uses *** and ***.")
		require.NotContains(t, body, secretText)
		require.NotContains(t, body, "From-a-file")
	}
	_, body := request(t, http.MethodGet, page+"api/search?q=from-a-file", "")
	require.Contains(t, body, `"tools":[]`, "what is hidden is not found")
	path := b.config
	b.stop()
	for _, args := range [][]string{{"tools"}, {"tools", "one"}, {"--json", "tools", "one/t"}, {"prompts"}, {"--json", "prompts"}} {
		out, code := runTool(t, append([]string{"-c", path}, args...)...)
		require.Equal(t, cli.ExitOK, code, out)
		require.Contains(t, out, "Uses *** and ***.")
		require.NotContains(t, out, secretText)
		require.NotContains(t, out, "From-a-file")
	}
	out, code := runTool(t, "-c", path, "call", "one/t", "key=From-a-file-4711")
	require.Equal(t, cli.ExitOK, code, out)
}
