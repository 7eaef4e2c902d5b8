//go:build real

package real

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// old is the directory of servers and bridges with old or unusual protocols.
const old = "old/"

// These are programs in that directory.
const (
	sdkServer    = old + "sdk-server.mjs"
	supergateway = old + "node_modules/supergateway/dist/index.js"
	mcpRemote    = old + "node_modules/mcp-remote/dist/proxy.js"
)

// everything is the reference server, here behind bridges.
const everything = scope + "server-everything/dist/index.js"

// loopback returns an option of node that restricts listening to the loopback.
func loopback(t *testing.T) string { return "--import=" + module(t, old+"loopback.mjs") }

// echoes returns a check that calls the tool "echo", which all these servers have.
func echoes(name, tool, argument string) func(*testing.T, *facade.Client) {
	return func(t *testing.T, c *facade.Client) {
		require.Contains(t, call(t, c, name+"/"+tool, map[string]any{argument: "hello"}), "hello")
	}
}

// oldServers use old or unusual versions of the protocol on stdio. The last ones are
// bridges to servers over HTTP, which continue to run when the bridge is killed.
var oldServers = []server{
	{"sdk-0.6", "2024-11-05", node(sdkServer, "0.6"), 1, echoes("sdk-0.6", "echo", "text")},
	{"sdk-1.0", "2024-11-05", node(sdkServer, "1.0"), 1, echoes("sdk-1.0", "echo", "text")},
	{"litemcp", "2025-11-25", node(old + "litemcp-server.mjs"), 1, echoes("litemcp", "echo", "text")},
	{"fastmcp-1", "2024-11-05", node(old + "fastmcp-server.mjs"), 1, echoes("fastmcp-1", "echo", "text")},
	{"mcp-framework", "2025-11-25", node(old + "framework/server.mjs"), 1, echoes("mcp-framework", "echo", "text")},
	{"azure", "2025-11-25", azure, 20, func(t *testing.T, c *facade.Client) {
		require.Contains(t, call(t, c, "azure/storage", map[string]any{"intent": "list what there is", "learn": true}), "available command")
	}},
	{"kubernetes", "2026-07-28", kubernetes, 5, func(t *testing.T, c *facade.Client) {
		require.Contains(t, call(t, c, "kubernetes/configuration_view", nil), "current-context: here")
	}},
	{"supergateway-sse", "2025-11-25", supergatewayTo("--sse", "sse"), 10, echoes("supergateway-sse", "echo", "message")},
	{"supergateway-http", "2025-11-25", supergatewayTo("--streamableHttp", "streamableHttp"), 10, echoes("supergateway-http", "echo", "message")},
	{"mcp-remote-sse", "2025-11-25", mcpRemoteTo("sse-only", "sse"), 10, echoes("mcp-remote-sse", "echo", "message")},
	{"mcp-remote-http", "2025-11-25", mcpRemoteTo("http-only", "streamableHttp"), 10, echoes("mcp-remote-http", "echo", "message")},
}

// azure is a native binary of a .NET program. Without credentials its tools can still
// describe themselves.
func azure(t *testing.T) *mcpvisor.Stdio {
	return &mcpvisor.Stdio{Command: installed(t, old+"node_modules/@azure/mcp-linux-x64/dist/azmcp"), Args: []string{"server", "start"},
		Env: map[string]string{"AZURE_MCP_COLLECT_TELEMETRY": "false"}}
}

// kubernetes is written in Go and started by a wrapper on node, as its npm package
// does. Without a cluster it can show its configuration.
func kubernetes(t *testing.T) *mcpvisor.Stdio {
	program := installed(t, old+"node_modules/kubernetes-mcp-server-linux-amd64/bin/kubernetes-mcp-server-linux-amd64")
	config := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(config, []byte(`
apiVersion: v1
kind: Config
clusters: [{name: nowhere, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: here, context: {cluster: nowhere, user: test}}]
users: [{name: test, user: {}}]
current-context: here
`), 0o600))
	s := node(old+"wrapper.mjs", program)(t)
	s.Env = map[string]string{"KUBECONFIG": config}
	return s
}

// installed returns the path of a program. It skips the test if npm has no such
// program for this platform.
func installed(t *testing.T, program string) string {
	t.Helper()
	path := module(t, program)
	if !fileExists(path) {
		t.Skipf("%s is not installed: npm has it for Linux on amd64 only", program)
	}
	return path
}

// supergatewayTo returns supergateway as a bridge from stdio to a server over HTTP.
func supergatewayTo(flag, kind string) func(*testing.T) *mcpvisor.Stdio {
	return func(t *testing.T) *mcpvisor.Stdio {
		s := node(supergateway, flag, everythingOver(t, kind), "--logLevel", "none")(t)
		s.Env = map[string]string{"NODE_OPTIONS": loopback(t)}
		return s
	}
}

// mcpRemoteTo returns mcp-remote as such a bridge.
func mcpRemoteTo(strategy, kind string) func(*testing.T) *mcpvisor.Stdio {
	return func(t *testing.T) *mcpvisor.Stdio {
		s := node(mcpRemote, everythingOver(t, kind), "--transport", strategy, "--allow-http")(t)
		s.Env = map[string]string{"NODE_OPTIONS": loopback(t), "MCP_REMOTE_CONFIG_DIR": t.TempDir()}
		return s
	}
}

// everythingOver starts the reference server over HTTP and returns its URL.
func everythingOver(t *testing.T, kind string) string {
	port := freePort(t)
	serveGroup(t, port, everything, kind)
	return fmt.Sprintf("http://127.0.0.1:%d%s", port, map[string]string{"sse": "/sse", "streamableHttp": "/mcp"}[kind])
}
