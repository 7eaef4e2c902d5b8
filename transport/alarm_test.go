package transport

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
		var a alarm
		rings := 0
		a.ring = func() {
			mu.Lock()
			defer mu.Unlock()
			rings++
			a.rung()
			now := time.Now()
			a.next(now, now.Add(time.Microsecond))
		}
		mu.Lock()
		a.set(time.Now())
		mu.Unlock()
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		a.stop()
		require.InDelta(t, int(time.Second/sweepGrain), rings, 2)
	})
}
