//go:build real

package real

import (
	"context"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestMain(m *testing.M) {
	mcptest.Main() // the fixture of the hosts
	goleak.VerifyTestMain(m)
}

func newClient(t *testing.T) *facade.Client {
	t.Helper()
	c, err := facade.New()
	require.NoError(t, err)
	t.Cleanup(func() { closeClient(t, c) })
	return c
}

func closeClient(t *testing.T, c *facade.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	require.NoError(t, c.Close(ctx))
}

// requireGroupGone requires that no process of a server's group is left. Zombies do
// not count: the system reaps orphans.
func requireGroupGone(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool { return syscall.Kill(-pid, 0) != nil }, 10*time.Second, 10*time.Millisecond,
		"the process group %d still exists", pid)
}

// killServer kills a server, the only one of the client, and returns when it is ready again.
func killServer(t *testing.T, c *facade.Client, name string) {
	t.Helper()
	st, _ := c.ServerStatus(name)
	watch, stop := context.WithCancel(t.Context())
	defer stop()
	events := c.Watch(watch)
	require.NoError(t, syscall.Kill(st.Session.PID, syscall.SIGKILL))
	for ev := range events {
		if ev.Kind == mcpvisor.EventDown {
			require.Empty(t, c.Tools())
		}
		if ev.Kind == mcpvisor.EventReady {
			break
		}
	}
	requireGroupGone(t, st.Session.PID)
}

// patient gives servers that load slowly time to answer server/discover. A server
// that does not answer within Negotiate is sent initialize.
var patient = mcpvisor.Timeouts{Negotiate: 25 * time.Second}

// What hosts of the gateway read is the same after each start, byte by byte, also when a server writes members and
// lists in another order each time.
func TestStdio_server_listed_called_killed_and_restarted(t *testing.T) {
	for _, s := range slices.Concat(servers, oldServers) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t)
			spec := mcpvisor.ServerSpec{Name: s.name, Stdio: s.stdio(t), Policy: supervisor.Retry(3, 100*time.Millisecond), Timeouts: patient}
			require.NoError(t, c.Register(t.Context(), spec))
			tools, lists := c.Tools(), listsOf(t, c)
			require.GreaterOrEqual(t, len(tools), s.tools)
			if s.check != nil {
				s.check(t, c)
			}
			resources, templates, prompts := c.Resources(), c.ResourceTemplates(), c.Prompts()

			st, ok := c.ServerStatus(s.name)
			require.True(t, ok)
			require.Equal(t, s.protocol, st.Session.ProtocolVersion)
			first := st.Session.PID
			killServer(t, c, s.name)
			require.Equal(t, tools, c.Tools())
			require.Equal(t, resources, c.Resources())
			require.Equal(t, templates, c.ResourceTemplates())
			require.Equal(t, prompts, c.Prompts())
			if s.check != nil {
				s.check(t, c)
			}
			st, _ = c.ServerStatus(s.name)
			require.Equal(t, s.protocol, st.Session.ProtocolVersion)
			require.NotEqual(t, first, st.Session.PID)

			spec.Stdio = shuffled(t, spec.Stdio)
			require.NoError(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{spec}))
			require.NoError(t, c.WaitReady(t.Context(), s.name))
			requireGroupGone(t, st.Session.PID)
			require.Equal(t, lists, listsOf(t, c), "each start writes in another order")
			for range 2 {
				killServer(t, c, s.name)
				require.Equal(t, lists, listsOf(t, c), "each start writes in another order")
			}
			st, _ = c.ServerStatus(s.name)
			closeClient(t, c)
			requireGroupGone(t, st.Session.PID)
		})
	}
}
