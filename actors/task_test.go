package actors

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Followers that leave while one of them waits for its turn take no turns with them.
func TestAwaitTaskTurn_of_those_who_left(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(fsSpec)
		v := h.rt.Snapshot().Server("fs")
		for range maxTaskBurst {
			v.AwaitTaskTurn(t.Context())
		}
		ctx, leave := context.WithCancel(t.Context())
		var left sync.WaitGroup
		for range 10 * maxTaskRate {
			left.Go(func() { v.AwaitTaskTurn(ctx) })
		}
		h.settle()
		leave()
		left.Wait()
		began := time.Now()
		v.AwaitTaskTurn(t.Context())
		require.Less(t, time.Since(began), 3*time.Second/maxTaskRate/2, "at most one turn")
	})
}
