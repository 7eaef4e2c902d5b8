//go:build unix

package main

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// fleetEntry is an entry of a fleet, which gives no server up.
func fleetEntry(s mcptest.Script) map[string]any {
	e := entry(s)
	delete(e, "retry")
	return e
}

// startEtcd runs an etcd until the test ends, and names it for fleet commands.
func startEtcd(t *testing.T) {
	t.Helper()
	program, free := etcdProgram(t), freeAddresses(t, 2)
	client, peer := "http://"+free[0], "http://"+free[1]
	cmd := exec.Command(program, "--data-dir", t.TempDir(), "--log-level", "error", "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	cmd.Env = append(os.Environ(), "ETCD_UNSUPPORTED_ARCH=arm64")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Setenv("MCPVISOR_FLEET_ETCD", client)
}

// What gateways offer is applied with the servers, and each node follows it, also when it changes:
// profiles by path and by token, and on_down of an entry.
func TestFleet_gateway(t *testing.T) {
	startEtcd(t)
	t.Setenv("STATE_DIRECTORY", t.TempDir())
	command := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		require.Zero(t, run(t.Context(), args, strings.NewReader(""), &out, &errs), "%s%s", &out, &errs)
		return out.String()
	}
	dir, certs := t.TempDir(), filepath.Join(t.TempDir(), "certs")
	command("fleet", "certs", certs, "a", "b")
	file := filepath.Join(dir, "fleet.json")
	made, tokens := makeTokens(t, []string{"reader", "--profile", "read"})

	tools := []mcptest.ToolDef{{Name: "read", Text: "x"}, {Name: "write", Text: "y"}}
	pids := map[string]string{"kept": t.TempDir(), "withdrawn": t.TempDir()}
	servers := map[string]any{}
	for name, dir := range pids {
		e := fleetEntry(mcptest.Script{NoPrompts: true, Tools: tools, StateDir: dir})
		e["retry"] = map[string]any{"max_attempts": "unlimited", "base": "1h", "max": "1h"} // one that has ended stays down
		e["node_labels"] = map[string]any{"zone": "a"}
		servers[name] = e
	}
	servers["withdrawn"].(map[string]any)["on_down"] = "withdraw"
	apply := func(gateway string, args ...string) string {
		t.Helper()
		require.NoError(t, os.WriteFile(file, []byte(configOf(t, servers, gateway)), 0o600))
		return command(append([]string{"fleet", "apply", file}, args...)...)
	}
	require.Regexp(t, `(?m)^gateway  added$`, apply(`{"profiles": {"read": {"tools": ["read"]}}}`))

	sockets := shortDir(t)
	a := startRunIn(t, sockets, nil, "fleet", "run", "--node", "a", "--certs", certs, "--listen", "127.0.0.1:0", "--allow-unguarded", "--label", "zone=a", "--mcp", "127.0.0.1:0", "--mcp-tokens", tokens)
	byToken := mcpURL(a)
	a.drain()
	b := startRunIn(t, sockets, nil, "fleet", "run", "--node", "b", "--certs", certs, "--listen", "127.0.0.1:0", "--allow-unguarded", "--mcp", "127.0.0.1:0")
	byPath := mcpURL(b)
	b.drain()
	command("--config", "fleet:a", "--wait", "ready", "status")
	command("--config", "fleet:b", "--wait", "ready", "status")

	read, err := connect(t, byToken, made["reader"])
	require.NoError(t, err)
	readToo, err := connect(t, byPath+"/read", "")
	require.NoError(t, err)
	all, err := connect(t, byPath, "")
	require.NoError(t, err)
	_, err = connect(t, byPath+"/none", "")
	require.Error(t, err)
	require.Equal(t, []string{"kept__read", "withdrawn__read"}, toolNames(t, read))
	require.Equal(t, []string{"kept__read", "withdrawn__read"}, toolNames(t, readToo))
	require.Equal(t, []string{"kept__read", "kept__write", "withdrawn__read", "withdrawn__write"}, toolNames(t, all))

	require.Regexp(t, `(?m)^gateway  changed\nunchanged  2 servers\nnothing was written`, apply(`{"profiles": {"read": {"tools": ["write"]}}}`, "--dry-run"))
	apply(`{"profiles": {"read": {"tools": ["write"]}}}`)
	require.Eventually(t, func() bool {
		return slices.Equal([]string{"kept__write", "withdrawn__write"}, toolNames(t, read)) && slices.Equal(toolNames(t, read), toolNames(t, readToo))
	}, 20*time.Second, 10*time.Millisecond, "the sessions go on")

	refused := func(says string, args ...string) {
		t.Helper()
		out, code := runTool(t, args...)
		require.NotZero(t, code)
		require.True(t, code == 2 || !slices.Contains(args, "move"), out)
		require.Contains(t, out, says)
	}
	refused("node a is running already (pid ", "fleet", "run", "--node", "a", "--certs", certs, "--listen", "127.0.0.1:0", "--allow-unguarded")
	refused(`move server "kept" to node "z": the fleet has no such node; it may have ended, or have no lease; mcpvisor fleet status lists the nodes`, "fleet", "move", "kept", "z")
	refused(`move server "nosuch" to node "a": the fleet has no such server; mcpvisor fleet status lists the servers`, "fleet", "move", "nosuch", "a")
	refused("--config fleet:a is a node, and its servers are those of its fleet", "--config", "fleet:a", "add", "new", "--", "x")
	require.NoFileExists(t, "fleet:a")

	for _, dir := range slices.Collect(maps.Values(pids)) {
		for _, pid := range mcptest.PIDs(dir) {
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		}
	}
	require.Eventually(t, func() bool { return slices.Equal([]string{"kept__write"}, toolNames(t, read)) }, 20*time.Second, 10*time.Millisecond, "the other is down and withdrawn")

	require.NoError(t, os.WriteFile(file, []byte(jsonText(t, map[string]any{"mcpServers": servers})), 0o600))
	require.Regexp(t, `(?m)^gateway  removed$`, command("fleet", "apply", file))
	require.Eventually(t, func() bool { _, err := connect(t, byPath+"/read", ""); return err != nil }, 20*time.Second, 10*time.Millisecond, "there is no profile")
	require.NoError(t, read.Close())
	require.NoError(t, readToo.Close())
	require.NoError(t, all.Close())
}
