//go:build real

package real

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// freePort returns a loopback port that is not in use.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// serve starts a server that listens on a port. The returned function kills it.
func serve(t *testing.T, port int, args ...string) func() {
	t.Helper()
	cmd := exec.Command("node", args...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("PORT=%d", port))
	require.NoError(t, cmd.Start())
	killed := false
	kill := func() {
		if !killed {
			killed = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	t.Cleanup(kill)
	listening(t, port)
	return kill
}

// listening waits until something listens on a port.
func listening(t *testing.T, port int) {
	t.Helper()
	require.Eventually(t, func() bool {
		conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, 30*time.Second, 20*time.Millisecond)
}

func TestHTTP_server_killed_and_restarted_on_its_port(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		server
		tool  string // runs long and reports progress
		input map[string]any
	}{
		"everything": {[]string{scope + "server-everything/dist/index.js", "streamableHttp"}, servers[0],
			"everything/trigger-long-running-operation", map[string]any{"duration": 300, "steps": 3000}},
		"fastmcp": {[]string{"fastmcp-server.mjs"}, servers[len(servers)-1],
			"fastmcp/count", map[string]any{"to": 6000}},
	} {
		t.Run(name, func(t *testing.T) {
			port := freePort(t)
			kill := serve(t, port, tc.args...)
			c := newClient(t)
			events := c.Watch(t.Context())
			require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: name,
				HTTP:   &mcpvisor.HTTP{URL: fmt.Sprintf("http://127.0.0.1:%d/mcp", port)},
				Policy: supervisor.Retry(supervisor.Unlimited, 50*time.Millisecond), Probe: mcpvisor.Probe{Interval: 200 * time.Millisecond}}))
			requireVersion := func() {
				st, ok := c.ServerStatus(name)
				require.True(t, ok)
				require.Equal(t, tc.protocol, st.Session.ProtocolVersion)
			}
			requireVersion()
			tools := c.Tools()
			tc.check(t, c)

			working := startCall(t, c, tc.tool, tc.input)
			kill()
			requireCrashed(t, working)
			awaitKind(t, events, mcpvisor.EventDown)
			require.Empty(t, c.Tools())
			serve(t, port, tc.args...)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			require.NoError(t, c.WaitReady(ctx, name))
			requireVersion()
			require.Equal(t, tools, c.Tools())
			tc.check(t, c)
		})
	}
}

func awaitKind(t *testing.T, events <-chan mcpvisor.Event, kind mcpvisor.EventKind) {
	t.Helper()
	limit := time.After(30 * time.Second)
	for {
		select {
		case ev, ok := <-events:
			require.True(t, ok)
			if ev.Kind == kind {
				return
			}
		case <-limit:
			require.FailNow(t, "no event "+string(kind))
		}
	}
}
