package supervisor_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestPolicyValidateRejects(t *testing.T) {
	for _, c := range []struct {
		policy supervisor.Policy
		want   string
	}{
		{supervisor.Policy{MaxAttempts: -2}, "retry policy: MaxAttempts is -2; use 0 for no retry, a positive number, or supervisor.Unlimited"},
		{supervisor.Policy{Base: -time.Second}, "retry policy: Base is -1s; a delay cannot be negative"},
		{supervisor.Policy{MaxAttempts: supervisor.Unlimited}, "retry policy: Base is 0 with unlimited attempts; a server that cannot start would be dialled in a tight loop; set a base delay"},
		{supervisor.Policy{Max: -1}, "retry policy: Max is -1ns; it must be at least Base (0s), or 0 for the default"},
		{supervisor.Policy{Base: 2, Max: 1}, "retry policy: Max is 1ns; it must be at least Base (2ns), or 0 for the default"},
		{supervisor.Policy{Jitter: -0.1}, "retry policy: Jitter is -0.1; it must lie between 0 and 1"},
		{supervisor.Policy{Jitter: 1.5}, "retry policy: Jitter is 1.5; it must lie between 0 and 1"},
		{supervisor.Policy{Jitter: math.NaN()}, "retry policy: Jitter is NaN; it must lie between 0 and 1"},
		{supervisor.Policy{StableAfter: -1}, "retry policy: StableAfter is -1ns; it cannot be negative"},
		{supervisor.Policy{ParkEvery: -1}, "retry policy: ParkEvery is -1ns; it cannot be negative"},
		{supervisor.Policy{Intensity: supervisor.Intensity{Restarts: 3}}, "retry policy: Intensity is 3 restarts in 0s; set both to more than zero, or neither"},
		{supervisor.Policy{Intensity: supervisor.Intensity{Window: time.Second}}, "retry policy: Intensity is 0 restarts in 1s; set both to more than zero, or neither"},
		{supervisor.Policy{Intensity: supervisor.Intensity{Restarts: -1, Window: -1}}, "retry policy: Intensity is -1 restarts in -1ns; set both to more than zero, or neither"},
		{
			supervisor.Policy{Base: -1, StableAfter: -1},
			"retry policy: Base is -1ns; a delay cannot be negative\nretry policy: StableAfter is -1ns; it cannot be negative",
		},
	} {
		require.EqualError(t, c.policy.Validate(), c.want)
	}
}

func TestPolicyValidateAccepts(t *testing.T) {
	for _, p := range []supervisor.Policy{
		supervisor.NoRetry(),
		supervisor.Retry(3, 0),
		supervisor.Retry(3, 500*time.Millisecond),
		supervisor.Retry(3, time.Second, supervisor.WithMaxDelay(time.Second)),
		supervisor.Retry(supervisor.Unlimited, time.Nanosecond),
		supervisor.Retry(1, time.Second, supervisor.WithJitter(1)),
		supervisor.Retry(1, time.Second, supervisor.WithIntensity(1, time.Second)),
		supervisor.Retry(0, 0, supervisor.WithParking(time.Minute)),
	} {
		require.NoError(t, p.Validate(), "%v", p)
	}
}

func TestRetryTakesEveryOption(t *testing.T) {
	require.Equal(t,
		supervisor.Policy{
			MaxAttempts: 5, Base: time.Second, Max: time.Minute, Jitter: 0.2, StableAfter: 3 * time.Second,
			ParkEvery: time.Hour, Intensity: supervisor.Intensity{Restarts: 7, Window: 9 * time.Minute},
		},
		supervisor.Retry(5, time.Second,
			supervisor.WithMaxDelay(time.Minute), supervisor.WithJitter(0.2), supervisor.WithStableAfter(3*time.Second),
			supervisor.WithParking(time.Hour), supervisor.WithIntensity(7, 9*time.Minute)))
}

func TestPolicyString(t *testing.T) {
	for _, c := range []struct {
		policy supervisor.Policy
		words  string
	}{
		{supervisor.NoRetry(), "no retry"},
		{supervisor.Retry(3, 500*time.Millisecond), "retry 3×, 500ms doubling"},
		{supervisor.Retry(supervisor.Unlimited, time.Second), "retry without limit, 1s doubling"},
		{supervisor.Retry(3, time.Second, supervisor.WithParking(time.Minute)), "retry 3×, 1s doubling, then every 1m0s"},
		{supervisor.Retry(0, 0, supervisor.WithParking(time.Minute)), "no retry, then every 1m0s"},
	} {
		require.Equal(t, c.words, c.policy.String())
	}
}

func TestRetry_nil_option(t *testing.T) {
	require.Equal(t, supervisor.Retry(3, time.Second), supervisor.Retry(3, time.Second, nil))
}
