package actors

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// A transient server that has exited with 0 stays listed, and a call that meets it in this moment wakes it; with a call in
// flight it has failed.
func TestTransientIsListedWhenItExits(t *testing.T) {
	for _, code := range []int{0, 1} {
		withHarness(t, func(t *testing.T, h *harness) {
			h.script("a", script{tools: []string{"ls"}})
			spec := specOf("a")
			spec.Transient = true
			h.register(spec)
			v := h.rt.Snapshot().Server("a")
			h.session("a").Abort(&supervisor.Cause{Kind: supervisor.CauseExit, ExitCode: &code}) // v does not know yet
			require.Equal(t, code == 0, v.Listed() != nil)
			require.Equal(t, code == 0, v.FellAsleep())
			require.Equal(t, code == 0, v.Status().DownSince == nil)
			require.True(t, v.current.limiter.tryAcquire())
			require.Nil(t, v.Listed())
			require.False(t, v.FellAsleep())
			v.current.limiter.release(false)
		})
	}
}

// A call that was counted and is not sent when a transient server exits with 0 makes that no failure; one that was
// perhaps sent does. The server is judged at the latest when nothing of it is left.
func TestTransientExitsBeforeACallIsSent(t *testing.T) {
	for name, row := range map[string]struct {
		end  func(l *limiter)
		want supervisor.State
	}{
		"not sent":   {func(l *limiter) { l.release(false) }, supervisor.StateResting},
		"lost":       {func(l *limiter) { l.release(true) }, supervisor.StateBackoff},
		"never ends": {func(*limiter) {}, supervisor.StateBackoff},
		"two":        {func(l *limiter) { l.release(true); l.release(false) }, supervisor.StateBackoff},
	} {
		runWithHarness(t, name, func(t *testing.T, h *harness) {
			h.script("a", script{tools: []string{"ls"}, releaseAfter: time.Second})
			spec := specOf("a")
			spec.Transient = true
			h.register(spec)
			l, code := &h.rt.Snapshot().Server("a").current.limiter, 0
			require.True(t, l.tryAcquire())
			if name == "two" {
				require.True(t, l.tryAcquire())
			}
			h.session("a").Abort(&supervisor.Cause{Kind: supervisor.CauseExit, ExitCode: &code})
			require.Equal(t, supervisor.StateReady, h.state("a"), "the call decides")
			row.end(l)
			time.Sleep(time.Second)
			require.Equal(t, row.want, h.state("a"))
			require.Equal(t, map[bool]int{true: 0, false: 1}[row.want == supervisor.StateResting], h.rt.Snapshot().Server("a").Status().Attempt)
		})
	}
}
