package actors

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// A dialer keeps what the next session needs while one may follow soon: not while the
// server is parked, evicted or gone.
func TestKeeper_while_a_session_may_follow(t *testing.T) {
	for name, test := range map[string]struct {
		policy supervisor.Policy
		state  supervisor.State
		keeps  bool
	}{
		"backoff": {supervisor.Retry(3, time.Minute), supervisor.StateBackoff, true},
		"evicted": {supervisor.NoRetry, supervisor.StateEvicted, false},
		"parked":  {supervisor.Retry(0, 0, supervisor.WithParking(time.Hour)), supervisor.StateParked, false},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, h *harness) {
				h.script("fs", script{tools: []string{"ls"}})
				h.register(mcpvisor.ServerSpec{Name: "fs", Policy: test.policy})
				require.True(t, h.dialers["fs"][0].isKept())
				h.sessions("fs")[0].Abort(errScripted)
				time.Sleep(time.Second)
				require.Equal(t, test.state, h.state("fs"))
				require.Equal(t, test.keeps, h.dialers["fs"][0].isKept())
				require.NoError(t, h.rt.Restart(context.Background(), "fs"))
				synctest.Wait()
				require.Equal(t, supervisor.StateReady, h.state("fs"))
				require.True(t, h.dialers["fs"][0].isKept())
			})
		})
	}
}

// Close waits for what dialers still do when they are idle.
func TestKeeper_close_waits(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(mcpvisor.ServerSpec{Name: "fs"})
		h.dialers["fs"][0].finishTakes = time.Second
		require.Equal(t, time.Second, spends(func() { require.NoError(t, h.rt.Close(context.Background())) }))
		require.False(t, h.dialers["fs"][0].isKept())
	})
}
