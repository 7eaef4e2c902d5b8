package actors

import (
	"testing"

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
