package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/lifecycle"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// A stable session resets the budget, but not the restart intensity: a server that is
// stable and then crashes, again and again, is evicted anyway.
func TestIntensityIsKeptByStability(t *testing.T) {
	s := newScript(t, supervisor.Retry(9, time.Second, supervisor.WithStableAfter(time.Second), supervisor.WithIntensity(2, time.Hour)), true).on(lifecycle.InputRegister)
	for range 2 {
		s.start().fire()
		require.Zero(t, s.Attempt())
		s.crash().in(supervisor.StateBackoff).fire()
	}
	s.start().fire().in(supervisor.StateReady)
	s.crash().in(supervisor.StateEvicted)
}

func TestIntensityIsResetByTime(t *testing.T) {
	s := newScript(t, supervisor.Retry(supervisor.Unlimited, time.Second, supervisor.WithIntensity(2, time.Minute)), true).on(lifecycle.InputRegister)
	for range 10 {
		s.start()
		s.now = s.now.Add(30 * time.Second)
		s.crash().in(supervisor.StateBackoff).fire()
	}
}

func TestIntensityBindsUnlimitedRetries(t *testing.T) {
	s := newScript(t, supervisor.Retry(supervisor.Unlimited, time.Second, supervisor.WithIntensity(3, time.Hour)), true).on(lifecycle.InputRegister)
	for range 3 {
		s.on(lifecycle.InputFailed).on(lifecycle.InputReleased).in(supervisor.StateBackoff).fire()
	}
	s.on(lifecycle.InputFailed).on(lifecycle.InputReleased).in(supervisor.StateEvicted)
}

// A restart on request resets the count.
func TestRestartResetsIntensity(t *testing.T) {
	s := newScript(t, supervisor.Retry(supervisor.Unlimited, time.Second, supervisor.WithIntensity(1, time.Hour)), true).on(lifecycle.InputRegister)
	s.start().crash().in(supervisor.StateBackoff).fire().start().crash().in(supervisor.StateEvicted)
	s.on(lifecycle.InputRestart).in(supervisor.StateConnecting).start().crash().in(supervisor.StateBackoff)
	s.fire().start().crash().in(supervisor.StateEvicted)
}

// A restart on request does not count: the server did not end by itself.
func TestRestartsOnRequestDoNotCount(t *testing.T) {
	s := newScript(t, supervisor.Retry(supervisor.Unlimited, time.Second, supervisor.WithIntensity(1, time.Hour)), true).on(lifecycle.InputRegister)
	for range 5 {
		s.start().on(lifecycle.InputRestart).in(supervisor.StateClosing).on(lifecycle.InputReleased).in(supervisor.StateConnecting)
	}
	s.start().crash().in(supervisor.StateBackoff)
}

func TestParkedServerComesBack(t *testing.T) {
	s := newScript(t, supervisor.Retry(1, time.Second, supervisor.WithStableAfter(5*time.Second), supervisor.WithParking(time.Minute)), true).on(lifecycle.InputRegister)
	s.start().crash().in(supervisor.StateBackoff).fire()
	s.step(lifecycle.Input{Kind: lifecycle.InputFailed, Epoch: 2, Cause: exitCause()})
	s.does(lifecycle.Input{Kind: lifecycle.InputReleased, Epoch: 2}, lifecycle.EffectAnnounceGone, lifecycle.EffectArmPark).in(supervisor.StateParked)
	require.Equal(t, exitCause(), s.find(lifecycle.EffectAnnounceGone).Cause)
	require.Equal(t, time.Minute, s.armed.Delay)
	require.Equal(t, s.now.Add(time.Minute), s.RetryAt())

	// A failed attempt of a parked server costs nothing more, and parks it again.
	s.fire().in(supervisor.StateConnecting).on(lifecycle.InputFailed).on(lifecycle.InputReleased).in(supervisor.StateParked)
	require.Equal(t, 1, s.Attempt())

	// One that becomes ready but dies before it is stable parks again, too.
	s.fire().start().in(supervisor.StateReady).crash().in(supervisor.StateParked)

	// Only a stable session resets the budget.
	s.fire().start().in(supervisor.StateReady)
	require.Equal(t, 1, s.Attempt())
	s.fire().in(supervisor.StateReady)
	require.Zero(t, s.Attempt())
	s.crash().in(supervisor.StateBackoff)
	require.Equal(t, time.Second, s.armed.Delay)
}

// A server parked by intensity alone has attempts left, and uses them when
// the window has passed.
func TestParkedByIntensityReturnsToItsBudget(t *testing.T) {
	s := newScript(t, supervisor.Retry(5, time.Second, supervisor.WithParking(time.Hour), supervisor.WithIntensity(1, time.Minute)), true).on(lifecycle.InputRegister)
	s.on(lifecycle.InputFailed).on(lifecycle.InputReleased).in(supervisor.StateBackoff).fire()
	s.on(lifecycle.InputFailed).on(lifecycle.InputReleased).in(supervisor.StateParked).fire()
	s.on(lifecycle.InputFailed).on(lifecycle.InputReleased).in(supervisor.StateBackoff)
	require.Equal(t, 2, s.Attempt())
}
