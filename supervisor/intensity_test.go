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
	s := newScript(t, Retry(9, time.Second, WithStableAfter(time.Second), WithIntensity(2, time.Hour)), true).on(InputRegister)
	for range 2 {
		s.start().fire()
		require.Zero(t, s.Attempt())
		s.crash().in(StateBackoff).fire()
	}
	s.start().fire().in(StateReady)
	s.crash().in(StateEvicted)
}

func TestIntensityIsForgivenByTime(t *testing.T) {
	s := newScript(t, Retry(Unlimited, time.Second, WithIntensity(2, time.Minute)), true).on(InputRegister)
	for range 10 {
		s.start()
		s.now = s.now.Add(30 * time.Second)
		s.crash().in(StateBackoff).fire()
	}
}

func TestIntensityBindsUnlimitedRetries(t *testing.T) {
	s := newScript(t, Retry(Unlimited, time.Second, WithIntensity(3, time.Hour)), true).on(InputRegister)
	for range 3 {
		s.on(InputFailed).on(InputReleased).in(StateBackoff).fire()
	}
	s.on(InputFailed).on(InputReleased).in(StateEvicted)
}

// A person who asks for a restart starts a new account.
func TestRestartForgivesIntensity(t *testing.T) {
	s := newScript(t, Retry(Unlimited, time.Second, WithIntensity(1, time.Hour)), true).on(InputRegister)
	s.start().crash().in(StateBackoff).fire().start().crash().in(StateEvicted)
	s.on(InputRestart).in(StateConnecting).start().crash().in(StateBackoff)
	s.fire().start().crash().in(StateEvicted)
}

// A restart on request is not an end of the server's own doing.
func TestRestartsOnRequestDoNotCount(t *testing.T) {
	s := newScript(t, Retry(Unlimited, time.Second, WithIntensity(1, time.Hour)), true).on(InputRegister)
	for range 5 {
		s.start().on(InputRestart).in(StateClosing).on(InputReleased).in(StateConnecting)
	}
	s.start().crash().in(StateBackoff)
}

func TestParkedServerComesBack(t *testing.T) {
	s := newScript(t, Retry(1, time.Second, WithStableAfter(5*time.Second), WithParking(time.Minute)), true).on(InputRegister)
	s.start().crash().in(StateBackoff).fire()
	s.step(Input{Kind: InputFailed, Epoch: 2, Cause: crashed()})
	s.does(Input{Kind: InputReleased, Epoch: 2}, EffectAnnounceGone, EffectArmPark).in(StateParked)
	require.Equal(t, crashed(), s.find(EffectAnnounceGone).Cause)
	require.Equal(t, time.Minute, s.armed.Delay)
	require.Equal(t, s.now.Add(time.Minute), s.RetryAt())

	// A slow probe that fails costs nothing more, and parks again.
	s.fire().in(StateConnecting).on(InputFailed).on(InputReleased).in(StateParked)
	require.Equal(t, 1, s.Attempt())

	// One that becomes ready but dies before it is stable parks again, too.
	s.fire().start().in(StateReady).crash().in(StateParked)

	// Only a stable one has its budget back.
	s.fire().start().in(StateReady)
	require.Equal(t, 1, s.Attempt())
	s.fire().in(StateReady)
	require.Zero(t, s.Attempt())
	s.crash().in(StateBackoff)
	require.Equal(t, time.Second, s.armed.Delay)
}

// A server parked by intensity alone has attempts left, and uses them when
// the window has passed.
func TestParkedByIntensityReturnsToItsBudget(t *testing.T) {
	s := newScript(t, Retry(5, time.Second, WithParking(time.Hour), WithIntensity(1, time.Minute)), true).on(InputRegister)
	s.on(InputFailed).on(InputReleased).in(StateBackoff).fire()
	s.on(InputFailed).on(InputReleased).in(StateParked).fire()
	s.on(InputFailed).on(InputReleased).in(StateBackoff)
	require.Equal(t, 2, s.Attempt())
}
