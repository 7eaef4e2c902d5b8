//go:build real

package real

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// serveGroup starts a server that listens on a port, in its own process group. The
// returned function kills the group.
func serveGroup(t *testing.T, port int, args ...string) (kill func()) {
	t.Helper()
	cmd := exec.Command("node", args...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("PORT=%d", port), "NODE_OPTIONS="+loopback(t))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	killed := false
	kill = func() {
		if killed {
			return
		}
		killed = true
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		requireGroupGone(t, cmd.Process.Pid)
	}
	t.Cleanup(kill)
	listening(t, port)
	return kill
}

// oldHTTPServer is a server over HTTP with an old version of the protocol, or a bridge.
type oldHTTPServer struct {
	args     func(port string) []string
	path     string
	protocol string
	tool     string
	argument string
	sse      bool // it uses the transport HTTP+SSE
}

func script(args ...string) func(string) []string {
	return func(string) []string { return args }
}

// bridged returns the arguments of supergateway in front of the reference server on
// stdio.
func bridged(transport string, more ...string) func(string) []string {
	return func(port string) []string {
		return append([]string{supergateway, "--stdio", "node " + everything, "--port", port, "--outputTransport", transport, "--logLevel", "none"}, more...)
	}
}

var oldHTTPServers = map[string]oldHTTPServer{
	"everything":             {script(everything, "sse"), "/sse", "2025-11-25", "echo", "message", true},
	"sdk-0.6":                {script(sdkServer, "0.6"), "/sse", "2024-11-05", "echo", "text", true},
	"sdk-1.0":                {script(sdkServer, "1.0"), "/sse", "2024-11-05", "echo", "text", true},
	"litemcp":                {script(old + "litemcp-server.mjs"), "/sse", "2025-11-25", "echo", "text", true},
	"fastmcp-1":              {script(old + "fastmcp-server.mjs"), "/sse", "2024-11-05", "echo", "text", true},
	"mcp-framework":          {script(old + "framework/server.mjs"), "/sse", "2025-11-25", "echo", "text", true},
	"supergateway-sse":       {bridged("sse"), "/sse", "2025-11-25", "echo", "message", true},
	"supergateway-stateful":  {bridged("streamableHttp", "--stateful"), "/mcp", "2025-11-25", "echo", "message", false},
	"supergateway-stateless": {bridged("streamableHttp"), "/mcp", "2025-11-25", "echo", "message", false},
}

// The transport of each server is found out from its URL alone.
func TestOldHTTP_server_killed_and_restarted_on_its_port(t *testing.T) {
	for name, s := range oldHTTPServers {
		t.Run(name, func(t *testing.T) {
			port := freePort(t)
			args := s.args(fmt.Sprint(port))
			kill := serveGroup(t, port, args...)
			c := newClient(t)
			watch, stop := context.WithCancel(t.Context())
			defer stop()
			events := c.Watch(watch)
			require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: name,
				HTTP:   &mcpvisor.HTTP{URL: fmt.Sprintf("http://127.0.0.1:%d%s", port, s.path)},
				Policy: supervisor.Retry(supervisor.Unlimited, 50*time.Millisecond), Probe: mcpvisor.Probe{Interval: 200 * time.Millisecond}}))
			requireServes := func() {
				t.Helper()
				st, ok := c.ServerStatus(name)
				require.True(t, ok)
				require.Equal(t, s.protocol, st.Session.ProtocolVersion)
				require.Equal(t, s.sse, strings.Contains(st.Session.Deprecated, "HTTP+SSE"))
				echoes(name, s.tool, s.argument)(t, c)
			}
			requireServes()
			tools := c.Tools()
			require.NotEmpty(t, tools)

			kill()
			awaitKind(t, events, mcpvisor.EventDown)
			require.Empty(t, c.Tools())
			serveGroup(t, port, args...)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			require.NoError(t, c.WaitReady(ctx, name))
			require.Equal(t, tools, c.Tools())
			requireServes()
			closeClient(t, c)
		})
	}
}

// The end of the event stream ends the calls in flight.
func TestOldHTTP_call_in_flight_ends_with_its_server(t *testing.T) {
	port := freePort(t)
	kill := serveGroup(t, port, everything, "sse")
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "everything",
		HTTP: &mcpvisor.HTTP{URL: fmt.Sprintf("http://127.0.0.1:%d/sse", port), SSE: true}, Probe: mcpvisor.Probe{Interval: -1}}))
	working := startCall(t, c, "everything/trigger-long-running-operation", map[string]any{"duration": 300, "steps": 3000})
	kill()
	requireCrashed(t, working)
}
