package process

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What servers share outlives the last one while it is kept, and no longer.
func TestKeeper(t *testing.T) {
	watchdogPID := func() int {
		hostWatchdog.mu.Lock()
		defer hostWatchdog.mu.Unlock()
		if hostWatchdog.cmd == nil {
			return 0
		}
		return hostWatchdog.cmd.Process.Pid
	}
	threads := func() int {
		parentThreads.mu.Lock()
		defer parentThreads.mu.Unlock()
		return parentThreads.threads
	}
	var none *Keeper
	none.Keep()
	require.Nil(t, none.Release())

	var k Keeper
	require.Nil(t, k.Release(), "Keep was not called")
	first := 0
	for range 2 {
		c := startShell(t, "echo ready; cat")
		k.Keep()
		require.Eventually(t, func() bool { return watchdogPID() != 0 }, waitLimit, checkInterval)
		if first == 0 {
			first = watchdogPID()
		}
		c.Terminate(time.Second)
		require.NoError(t, c.Release())
		require.Equal(t, first, watchdogPID())
		require.Equal(t, 1, threads())
	}
	finish := k.Release()
	require.Nil(t, k.Release())
	finish()
	require.Zero(t, watchdogPID())
	require.Zero(t, threads())
	require.Nil(t, descriptors.proc)
	require.Empty(t, descriptors.spares)
}
