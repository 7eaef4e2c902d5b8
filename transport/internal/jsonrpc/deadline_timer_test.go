package jsonrpc

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Deadlines that are close together share a sweep.
func TestAnAlarmKeepsItsDistance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var a DeadlineTimer
		rings := 0
		a.OnFire = func() {
			mu.Lock()
			defer mu.Unlock()
			rings++
			a.Fired()
			now := time.Now()
			a.Rearm(now, now.Add(time.Microsecond))
		}
		mu.Lock()
		a.Set(time.Now())
		mu.Unlock()
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		a.Stop()
		require.InDelta(t, int(time.Second/SweepGrain), rings, 2)
	})
}
