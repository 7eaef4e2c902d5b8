package mcptest

import (
	"os/signal"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStdio_dies_of_ignored_signal: tests that were started under nohup, which has SIGHUP
// ignored, see the same end of a server.
func TestStdio_dies_of_ignored_signal(t *testing.T) {
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Ignore(syscall.SIGHUP) // inherited by the child
		defer signal.Reset(syscall.SIGHUP)
	}
	c := startChild(t, one(Fault{At: StageInitialized, Do: ActionDie, Signal: "HUP"}))
	c.initialize()
	_, err := c.ends()
	require.Equal(t, syscall.SIGHUP, killedBy(err))
}
