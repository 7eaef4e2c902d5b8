package supervisor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	. "github.com/mcpvisor/mcpvisor/supervisor"
)

// Stability gives attempts back, but not restart intensity: a server that
// proves itself and crashes again and again trips all the same.
func TestIntensityIsNotForgivenByStability(t *testing.T) {
	s := newScript(t, Retry(9, time.Second, StableAfter(time.Second), WithIntensity(2, time.Hour)), true).on(EvRegister)
	for range 2 {
		s.start().fire()
		require.Zero(t, s.Attempt())
		s.crash().in(Backoff).fire()
	}
	s.start().fire().in(Ready)
	s.crash().in(Evicted)
}

func TestIntensityIsForgivenByTime(t *testing.T) {
	s := newScript(t, Retry(Unlimited, time.Second, WithIntensity(2, time.Minute)), true).on(EvRegister)
	for range 10 {
		s.start()
		s.now = s.now.Add(30 * time.Second)
		s.crash().in(Backoff).fire()
	}
}

func TestIntensityBindsUnlimitedRetries(t *testing.T) {
	s := newScript(t, Retry(Unlimited, time.Second, WithIntensity(3, time.Hour)), true).on(EvRegister)
	for range 3 {
		s.on(EvFailed).on(EvReleased).in(Backoff).fire()
	}
	s.on(EvFailed).on(EvReleased).in(Evicted)
}

// A person who asks for a restart starts a new account.
func TestRestartForgivesIntensity(t *testing.T) {
	s := newScript(t, Retry(Unlimited, time.Second, WithIntensity(1, time.Hour)), true).on(EvRegister)
	s.start().crash().in(Backoff).fire().start().crash().in(Evicted)
	s.on(EvRestart).in(Connecting).start().crash().in(Backoff)
	s.fire().start().crash().in(Evicted)
}

// A restart on request is not an end of the server's own doing.
func TestRestartsOnRequestDoNotCount(t *testing.T) {
	s := newScript(t, Retry(Unlimited, time.Second, WithIntensity(1, time.Hour)), true).on(EvRegister)
	for range 5 {
		s.start().on(EvRestart).in(Closing).on(EvReleased).in(Connecting)
	}
	s.start().crash().in(Backoff)
}

func TestParkedServerComesBack(t *testing.T) {
	s := newScript(t, Retry(1, time.Second, StableAfter(5*time.Second), Park(time.Minute)), true).on(EvRegister)
	s.start().crash().in(Backoff).fire()
	s.step(Event{Kind: EvFailed, Epoch: 2, Cause: crashed()})
	s.does(Event{Kind: EvReleased, Epoch: 2}, DoGone, DoArmPark).in(Parked)
	require.Equal(t, crashed(), s.find(DoGone).Cause)
	require.Equal(t, time.Minute, s.armed.Delay)
	require.Equal(t, s.now.Add(time.Minute), s.RetryAt())

	// A slow probe that fails costs nothing more, and parks again.
	s.fire().in(Connecting).on(EvFailed).on(EvReleased).in(Parked)
	require.Equal(t, 1, s.Attempt())

	// One that becomes ready but dies before it is stable parks again, too.
	s.fire().start().in(Ready).crash().in(Parked)

	// Only a stable one has its budget back.
	s.fire().start().in(Ready)
	require.Equal(t, 1, s.Attempt())
	s.fire().in(Ready)
	require.Zero(t, s.Attempt())
	s.crash().in(Backoff)
	require.Equal(t, time.Second, s.armed.Delay)
}

// A server parked by intensity alone has attempts left, and uses them when
// the window has passed.
func TestParkedByIntensityReturnsToItsBudget(t *testing.T) {
	s := newScript(t, Retry(5, time.Second, Park(time.Hour), WithIntensity(1, time.Minute)), true).on(EvRegister)
	s.on(EvFailed).on(EvReleased).in(Backoff).fire()
	s.on(EvFailed).on(EvReleased).in(Parked).fire()
	s.on(EvFailed).on(EvReleased).in(Backoff)
	require.Equal(t, 2, s.Attempt())
}
