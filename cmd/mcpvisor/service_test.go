package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A service manager hears when run supervises its servers, how many are ready, that it is
// alive, and that it stops.
func TestRun_notifies_the_service_manager(t *testing.T) {
	dir := shortDir(t)
	address := filepath.Join(dir, "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Skip("no datagram sockets here: ", err)
	}
	t.Cleanup(func() { _ = manager.Close() })
	require.NoError(t, manager.SetReadDeadline(time.Now().Add(time.Minute)))
	var received []string
	awaitState := func(want string) {
		t.Helper()
		message := make([]byte, 1000)
		for {
			n, err := manager.Read(message)
			require.NoError(t, err, "%q is missing in %q", want, received)
			received = append(received, string(message[:n]))
			if strings.Contains(string(message[:n]), want) {
				return
			}
		}
	}
	t.Setenv("NOTIFY_SOCKET", address)
	t.Setenv("WATCHDOG_USEC", "30000000")
	t.Setenv("WATCHDOG_PID", "")
	b := startRunIn(t, dir, goodAndBad(), "run")
	awaitState("READY=1\nSTATUS=")
	awaitState("WATCHDOG=1")
	b.await("EVICTED")
	awaitState("STATUS=1 of 2 servers ready")
	b.stop()
	require.Zero(t, b.code)
	awaitState("STOPPING=1")
	require.Empty(t, b.errs.String())
}

// A manager that cannot be reached is warned of, and the servers run.
func TestRun_without_its_service_manager(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))
	b := startRun(t, goodAndBad(), "run")
	b.await("EVICTED")
	b.stop()
	require.Zero(t, b.code)
	require.Contains(t, b.errs.String(), "the service manager cannot be reached")
}
