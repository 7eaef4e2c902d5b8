package process

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A search skips the servers that live. After a server is reaped its id may be that of
// a descendant, so later searches read that id.
func TestScan_skips_living_servers(t *testing.T) {
	c := startShell(t, "echo ready; cat")
	pid := c.PID()
	require.True(t, procTable.isServer(pid))
	require.NotEmpty(t, mustReadTag(t, pid), "the server has no tag")
	found, err := procTable.scan(nil)
	require.NoError(t, err)
	for _, pids := range found {
		require.NotContains(t, pids, pid)
	}
	c.Terminate(time.Second)
	require.NoError(t, c.Release())
	require.False(t, procTable.isServer(pid))
	require.False(t, procTable.isUnreaped(pid))
}

// BenchmarkScan is one search of the process table of this machine.
func BenchmarkScan(b *testing.B) {
	for b.Loop() {
		if _, err := new(procScanner).scanOnce(nil); err != nil {
			b.Fatal(err)
		}
	}
}
