package daemon

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// startedVariable makes the test binary what Start starts: a program that prints a line and ends.
const startedVariable = "MCPVISOR_TEST_STARTED"

func TestMain(m *testing.M) {
	if os.Getenv(startedVariable) != "" && len(os.Args) > 1 && os.Args[1] == "run" {
		_, _ = os.Stdout.WriteString("started\n")
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// listen makes the socket of a service manager and sets the variable that names it.
func listen(t *testing.T, name string) *net.UnixConn {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Skip("no datagram sockets here: ", err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	t.Setenv("NOTIFY_SOCKET", name)
	return conn
}

func receive(t *testing.T, conn *net.UnixConn) string {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
	message := make([]byte, 1000)
	n, err := conn.Read(message)
	require.NoError(t, err)
	return string(message[:n])
}

func TestService_send(t *testing.T) {
	names := []string{filepath.Join(t.TempDir(), "notify")}
	if runtime.GOOS == "linux" {
		names = append(names, "@mcpvisor-test-"+strconv.Itoa(os.Getpid()))
	}
	for _, name := range names {
		manager := listen(t, name)
		m := new(service)
		require.NoError(t, m.connect())
		require.NoError(t, m.send(notifyReady, notifyStatus("3 servers\nREADY=0")))
		require.Equal(t, "READY=1\nSTATUS=3 servers READY=0", receive(t, manager))
		require.NoError(t, m.send(notifyStopping))
		require.Equal(t, "STOPPING=1", receive(t, manager))
		require.NoError(t, m.close())
		require.Empty(t, os.Getenv("NOTIFY_SOCKET"), "children do not speak for this process")
	}
}

// The process is alive as long as the check says so, and no longer.
// The status counts what is ready, and what need not be.
func TestService_status(t *testing.T) {
	c, err := facade.New()
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	for _, name := range []string{"a", "b"} {
		require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: name, InMemory: mcptest.InMemory(mcptest.Script{})}))
	}
	require.Equal(t, "STATUS=2 of 2 servers ready", (&service{client: c}).status())
	require.NoError(t, c.Stop(t.Context(), "b"))
	require.Equal(t, "STATUS=1 of 2 servers ready, 1 at rest or stopped", (&service{client: c}).status())
}

func TestService_keepAlive(t *testing.T) {
	manager := listen(t, filepath.Join(t.TempDir(), "notify"))
	t.Setenv("WATCHDOG_USEC", "20000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	m := new(service)
	require.NoError(t, m.connect())
	defer func() { _ = m.close() }()
	ctx, stop := context.WithCancel(t.Context())
	checks := 0
	m.keepAlive(ctx, func(check context.Context) error {
		_, bounded := check.Deadline()
		require.True(t, bounded)
		switch checks++; checks {
		case 3, 4: // it hangs, and recovers
			return errors.New("no answer")
		case 6:
			stop()
		}
		return nil
	})
	require.NoError(t, m.send("END"))
	for range 4 {
		require.Equal(t, "WATCHDOG=1", receive(t, manager))
	}
	require.Equal(t, "END", receive(t, manager))
}

func TestService_without_a_manager(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	m := new(service)
	require.NoError(t, m.connect())
	require.Nil(t, m.conn)
	require.NoError(t, m.send(notifyReady))
	require.NoError(t, m.close())
	m.keepAlive(t.Context(), nil)

	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, new(service).connect(), "the service manager cannot be reached")

	// The variables of another process are not ours.
	listen(t, filepath.Join(t.TempDir(), "notify"))
	t.Setenv("WATCHDOG_USEC", "1000")
	t.Setenv("WATCHDOG_PID", "1")
	m = new(service)
	require.NoError(t, m.connect())
	m.keepAlive(t.Context(), func(context.Context) error { t.Error("it asks"); return nil })
	require.NoError(t, m.close())
}
