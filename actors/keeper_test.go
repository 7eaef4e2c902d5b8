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
// server is parked, evicted or gone, and not before it was ready: a first start that fails
// is reported when nothing of it is left.
func TestKeeper_while_a_session_may_follow(t *testing.T) {
	for name, test := range map[string]struct {
		policy supervisor.Policy
		state  supervisor.State
		keeps  bool
	}{
		"backoff": {supervisor.Retry(3, time.Minute), supervisor.StateBackoff, true},
		"evicted": {supervisor.NoRetry(), supervisor.StateEvicted, false},
		"parked":  {supervisor.Retry(1, 0, supervisor.WithParking(time.Hour)), supervisor.StateParked, false},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, h *harness) {
				h.script("fs", script{tools: []string{"ls"}, listAfter: time.Second})
				go func() { _ = h.rt.Register(context.Background(), mcpvisor.ServerSpec{Name: "fs", Policy: test.policy}) }()
				synctest.Wait()
				require.False(t, h.dialers["fs"][0].isKept(), "not ready yet")
				time.Sleep(time.Second)
				require.Equal(t, supervisor.StateReady, h.state("fs"))
				require.Equal(t, test.policy.MaxAttempts != 0, h.dialers["fs"][0].isKept())
				for i := 0; h.state("fs") == supervisor.StateReady; i++ { // until the budget is spent
					h.sessions("fs")[i].Abort(errScripted)
					time.Sleep(2 * time.Second)
				}
				require.Equal(t, test.state, h.state("fs"))
				require.Equal(t, test.keeps, h.dialers["fs"][0].isKept())
			})
		})
	}
}

// Close waits for what dialers still do when they are idle.
func TestKeeper_close_waits(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(mcpvisor.ServerSpec{Name: "fs", Policy: supervisor.Retry(1, 0)})
		h.dialers["fs"][0].finishTakes = time.Second
		require.Equal(t, time.Second, spends(func() { require.NoError(t, h.rt.Close(context.Background())) }))
		require.False(t, h.dialers["fs"][0].isKept())
	})
}
