package oauth

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
)

// afterSuspend returns what time.Now returns after the machine was suspended for d: the
// wall clock advanced, and the monotonic clock did not.
func afterSuspend(now time.Time, d time.Duration) time.Time {
	const hasMonotonic = 1 << 63
	wall := (*uint64)(unsafe.Pointer(&now)) // 33 bits of seconds, 30 of nanoseconds
	if *wall&hasMonotonic == 0 {
		panic("no monotonic reading")
	}
	*wall += uint64(d/time.Second) << 30
	return now
}

func TestIsExpired_after_suspend(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	a := newAuthorizer(t, s, Config{FetchAuthorizationCode: approve})
	requireOK(t, a)
	a.mu.Lock()
	h := a.tokens.Clone()
	a.mu.Unlock()
	now := time.Now()
	h.Obtained, h.Expires = now, now.Add(time.Hour)
	require.False(t, isExpired(h, now.Add(59*time.Minute)))
	require.True(t, isExpired(h, now.Add(time.Hour)))
	later := afterSuspend(now.Add(time.Second), 2*time.Hour)
	require.Less(t, later.Sub(now), time.Minute, "the monotonic clock did not advance")
	require.True(t, isExpired(h, later), "the token expired while the machine was suspended")
	require.True(t, isExpired(h, afterSuspend(now.Add(2*time.Hour), -2*time.Hour)), "setting the wall clock back does not extend a lifetime")
	require.False(t, isExpired(h, afterSuspend(now.Add(time.Second), 30*time.Minute)))
}

func TestTakePending_after_suspend(t *testing.T) {
	a := &authorizer{pending: map[string]*authRequest{"s": {state: "s", created: afterSuspend(time.Now(), -authRequestLifetime-time.Minute)}}}
	require.Nil(t, a.takePending("s"), "the request is older than 15 minutes")
	a.pending["s"] = &authRequest{state: "s", created: time.Now()}
	require.NotNil(t, a.takePending("s"))
}

func TestReached(t *testing.T) {
	now := time.Now()
	due := now.Add(time.Hour)
	require.False(t, reached(due, now.Add(59*time.Minute)))
	require.True(t, reached(due, now.Add(time.Hour)))
	require.True(t, reached(due, afterSuspend(now, 2*time.Hour)), "by the wall clock")
	require.True(t, reached(due, afterSuspend(now.Add(2*time.Hour), -2*time.Hour)), "by the monotonic clock")
}

func TestElapsed(t *testing.T) {
	now := time.Now()
	require.Equal(t, time.Minute, elapsed(now, now.Add(time.Minute)))
	require.Equal(t, time.Hour, elapsed(now, afterSuspend(now, time.Hour)), "by the wall clock")
	require.Equal(t, time.Hour, elapsed(now, afterSuspend(now.Add(time.Hour), -time.Hour)), "by the monotonic clock")
}
