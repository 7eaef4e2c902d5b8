package facade_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/waitqueue"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A client that floods a server moves the 99th percentile of another client by no more than twice, in virtual time. The gateway
// makes the clients of its principals with waitqueue.WithClient.
func TestClients_flood(t *testing.T) {
	p99 := func(floods int) (worst time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			c, err := facade.New()
			require.NoError(t, err)
			spec := mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageCall, Do: mcptest.ActionDelay, Delay: 10 * time.Millisecond}}})}
			spec.Limits.MaxInFlight = 4
			require.NoError(t, c.Register(t.Context(), spec))
			ctx, stop := context.WithCancel(t.Context())
			var flood sync.WaitGroup
			for range floods {
				flood.Go(func() {
					for ctx.Err() == nil {
						_, _ = c.CallTool(waitqueue.WithClient(ctx, "floods"), "s/echo", map[string]any{"text": "x"})
					}
				})
			}
			time.Sleep(105 * time.Millisecond)
			var took []time.Duration
			for range 200 {
				began := time.Now()
				_, err := c.CallTool(waitqueue.WithClient(ctx, "calls"), "s/echo", map[string]any{"text": "x"})
				require.NoError(t, err)
				took = append(took, time.Since(began))
			}
			stop()
			flood.Wait()
			require.NoError(t, c.Close(context.Background()))
			slices.Sort(took)
			worst = took[len(took)*99/100]
		})
		return worst
	}
	alone := p99(0)
	require.Equal(t, 10*time.Millisecond, alone)
	require.LessOrEqual(t, p99(100), 2*alone)
}
