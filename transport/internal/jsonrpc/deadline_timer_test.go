package jsonrpc

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Deadlines that are close together share one sweep.
func TestDeadlineTimer_Rearm_keeps_sweeps_apart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var timer DeadlineTimer
		sweeps := 0
		timer.OnFire = func() {
			mu.Lock()
			defer mu.Unlock()
			sweeps++
			timer.Fired()
			now := time.Now()
			timer.Rearm(now, now.Add(time.Microsecond))
		}
		mu.Lock()
		timer.Set(time.Now())
		mu.Unlock()
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		timer.Stop()
		require.InDelta(t, int(time.Second/SweepGrain), sweeps, 2)
	})
}
