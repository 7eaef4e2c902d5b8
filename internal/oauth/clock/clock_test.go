package clock

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// afterSuspend returns a time of which only the wall clock has advanced, by d, as after
// the machine was suspended.
func afterSuspend(now time.Time, d time.Duration) time.Time {
	const hasMonotonic = 1 << 63
	wall := (*uint64)(unsafe.Pointer(&now)) // 33 bits of seconds, 30 of nanoseconds
	if *wall&hasMonotonic == 0 {
		panic("no monotonic reading")
	}
	*wall += uint64(d/time.Second) << 30
	return now
}

func TestReached(t *testing.T) {
	now := time.Now()
	due := now.Add(time.Hour)
	require.False(t, Reached(due, now.Add(59*time.Minute)))
	require.True(t, Reached(due, now.Add(time.Hour)))
	require.True(t, Reached(due, afterSuspend(now, 2*time.Hour)), "by the wall clock")
	require.True(t, Reached(due, afterSuspend(now.Add(2*time.Hour), -2*time.Hour)), "by the monotonic clock")
}

func TestElapsed(t *testing.T) {
	now := time.Now()
	require.Equal(t, time.Minute, Elapsed(now, now.Add(time.Minute)))
	require.Equal(t, time.Hour, Elapsed(now, afterSuspend(now, time.Hour)), "by the wall clock")
	require.Equal(t, time.Hour, Elapsed(now, afterSuspend(now.Add(time.Hour), -time.Hour)), "by the monotonic clock")
}
