package backoff_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

func TestDelay(t *testing.T) {
	b := backoff.Backoff{First: time.Second, Max: 10 * time.Second}
	for n, seconds := range []int{1, 1, 2, 4, 8, 10, 10} {
		require.Equal(t, time.Duration(seconds)*time.Second, b.Delay(n), "try %d", n)
	}
	require.Equal(t, 10*time.Second, b.Delay(math.MaxInt))
}

func TestNext(t *testing.T) {
	b := backoff.Backoff{First: time.Second, Max: 10 * time.Second}
	for previous, want := range map[time.Duration]time.Duration{
		0: time.Second, time.Millisecond: time.Second, time.Second: 2 * time.Second, 3 * time.Second: 6 * time.Second,
		5 * time.Second: 10 * time.Second, 6 * time.Second: 10 * time.Second, math.MaxInt64: 10 * time.Second,
	} {
		require.Equal(t, want, b.Next(previous), "after %v", previous)
	}
}

// Delay and Next describe the same series, and neither overflows.
func TestDelay_follows_next(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "first"))
		b := backoff.Backoff{First: first, Max: time.Duration(rapid.Int64Range(int64(first), math.MaxInt64).Draw(t, "max"))}
		var d time.Duration
		for n := 1; n < 70; n++ {
			d = b.Next(d)
			require.Equal(t, d, b.Delay(n))
			require.Positive(t, d)
			require.LessOrEqual(t, d, b.Max)
		}
	})
}

func TestWithJitter(t *testing.T) {
	for range 1000 {
		d := backoff.WithJitter(time.Second)
		require.GreaterOrEqual(t, d, time.Second)
		require.LessOrEqual(t, d, time.Second+time.Second/4)
	}
	require.Zero(t, backoff.WithJitter(0))
}

func TestSleep(t *testing.T) {
	testutil.RunInBubble(t, "waits", func(t *testing.T) {
		began := time.Now()
		require.NoError(t, backoff.Sleep(t.Context(), time.Hour))
		require.Equal(t, time.Hour, time.Since(began))
	})
	testutil.RunInBubble(t, "ends_with_its_context", func(t *testing.T) {
		why := errors.New("the session ended")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(why) })
		began := time.Now()
		require.ErrorIs(t, backoff.Sleep(ctx, time.Hour), why)
		require.Equal(t, time.Minute, time.Since(began))
		require.ErrorIs(t, backoff.Sleep(ctx, 0), why, "it has ended before")
	})
	testutil.RunInBubble(t, "ends_with_stop", func(t *testing.T) {
		stop := make(chan struct{})
		time.AfterFunc(time.Minute, func() { close(stop) })
		began := time.Now()
		require.NoError(t, backoff.SleepUntil(t.Context(), stop, time.Hour))
		require.Equal(t, time.Minute, time.Since(began))
	})
	t.Run("nothing_to_wait_for", func(t *testing.T) {
		require.NoError(t, backoff.Sleep(t.Context(), 0))
		require.NoError(t, backoff.Sleep(t.Context(), -time.Hour))
	})
}
