package supervisor_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor/internal/defaults"
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

const longest = time.Duration(math.MaxInt64)

func TestDelayDoublesExactlyWithoutJitter(t *testing.T) {
	p := supervisor.Retry(10, 500*time.Millisecond)
	want := []time.Duration{
		500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second,
		16 * time.Second, 32 * time.Second, 64 * time.Second, 128 * time.Second, 256 * time.Second,
	}
	for i, d := range want {
		// Without jitter the random number must not matter.
		require.Equal(t, d, p.Delay(i+1, 0), "attempt %d", i+1)
		require.Equal(t, d, p.Delay(i+1, 0.999), "attempt %d", i+1)
	}
}

func TestDelayAtTheEdges(t *testing.T) {
	for _, c := range []struct {
		name    string
		policy  supervisor.Policy
		attempt int
		rnd     float64
		want    time.Duration
	}{
		{"attempt 0 is the first", supervisor.Retry(1, time.Second), 0, 0, time.Second},
		{"no base, no wait", supervisor.Retry(1, 0), 7, 0, 0},
		{"no base ends for any attempt", supervisor.Retry(1, 0), math.MaxInt, 0, 0},
		{"negative base means no wait", supervisor.Retry(1, -3), 63, 0, 0},
		{"cap reached between two doublings", supervisor.Retry(9, time.Second, supervisor.WithMaxDelay(5*time.Second)), 4, 0, 5 * time.Second},
		{"cap is a power away", supervisor.Retry(9, time.Second, supervisor.WithMaxDelay(4*time.Second)), 3, 0, 4 * time.Second},
		{"cap holds", supervisor.Retry(9, time.Second, supervisor.WithMaxDelay(4*time.Second)), 4, 0, 4 * time.Second},
		{"cap below base wins", supervisor.Retry(9, time.Minute, supervisor.WithMaxDelay(time.Second)), 1, 0, time.Second},
		{"default cap", supervisor.Retry(99, time.Second), 10, 0, defaults.MaxDelay},
		{"default cap is never below base", supervisor.Retry(9, time.Hour), 5, 0, time.Hour},
		{"attempt 1000", supervisor.Retry(supervisor.Unlimited, time.Nanosecond, supervisor.WithMaxDelay(longest)), 1000, 0, longest},
		{"huge base", supervisor.Retry(9, longest), 1000, 0, longest},
		{"huge base beyond half", supervisor.Retry(9, longest/2+1, supervisor.WithMaxDelay(longest)), 2, 0, longest},
		{"huge base, jitter up", supervisor.Retry(9, longest, supervisor.WithJitter(1)), 3, 0.999, longest},
		{"jitter low", supervisor.Retry(9, time.Second, supervisor.WithJitter(0.5)), 1, 0, 500 * time.Millisecond},
		{"jitter middle", supervisor.Retry(9, time.Second, supervisor.WithJitter(0.5)), 1, 0.5, time.Second},
		{"jitter high", supervisor.Retry(9, time.Second, supervisor.WithJitter(0.5)), 2, 0.75, 2500 * time.Millisecond},
		{"jitter full may be nothing", supervisor.Retry(9, time.Second, supervisor.WithJitter(1)), 1, 0, 0},
		{"random number NaN", supervisor.Retry(9, time.Second, supervisor.WithJitter(0.5)), 1, math.NaN(), time.Second},
		{"random number below 0", supervisor.Retry(9, time.Second, supervisor.WithJitter(0.5)), 1, math.Inf(-1), 500 * time.Millisecond},
		{"random number above 1", supervisor.Retry(9, time.Second, supervisor.WithJitter(0.5)), 1, math.Inf(1), 1500 * time.Millisecond},
		{"jitter beyond 1 is not negative", supervisor.Retry(9, time.Second, supervisor.WithJitter(3)), 1, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, c.policy.Delay(c.attempt, c.rnd))
		})
	}
}

// For any valid policy a delay lies between what jitter allows around the
// delay without jitter, and that one never falls from attempt to attempt.
func TestDelayBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := supervisor.Retry(supervisor.Unlimited, time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "base")))
		if rapid.Bool().Draw(t, "capped") {
			p.Max = time.Duration(rapid.Int64Range(int64(p.Base), math.MaxInt64).Draw(t, "max"))
		}
		attempt := rapid.IntRange(1, 2000).Draw(t, "attempt")

		plain := p.Delay(attempt, 0)
		require.GreaterOrEqual(t, plain, p.Base)
		require.GreaterOrEqual(t, p.Delay(attempt+1, 0), plain)
		limit := p.Max
		if limit == 0 {
			limit = max(p.Base, defaults.MaxDelay)
		}
		require.LessOrEqual(t, plain, limit)

		p.Jitter = rapid.Float64Range(0, 1).Draw(t, "jitter")
		got := p.Delay(attempt, rapid.Float64Range(0, 0.999999).Draw(t, "rnd"))
		require.GreaterOrEqual(t, got, time.Duration(0))
		// A float64 holds 53 bits; allow for what it cannot say.
		slack := float64(plain)/(1<<50) + 1
		require.GreaterOrEqual(t, float64(got), float64(plain)*(1-p.Jitter)-slack)
		require.LessOrEqual(t, float64(got), float64(plain)*(1+p.Jitter)+slack)
	})
}

func TestCauseCloneSharesNothing(t *testing.T) {
	require.Nil(t, (*supervisor.Cause)(nil).Clone())
	code := 3
	c := &supervisor.Cause{Kind: supervisor.CauseExit, Message: "exit status 3", ExitCode: &code, Stderr: []string{"boom"}}
	d := c.Clone()
	require.Equal(t, c, d)
	*d.ExitCode, d.Stderr[0] = 4, "changed"
	require.Equal(t, 3, *c.ExitCode)
	require.Equal(t, "boom", c.Stderr[0])
}

func TestCauseMessage(t *testing.T) {
	var none *supervisor.Cause
	for _, c := range []struct {
		cause              *supervisor.Cause
		message, described string
	}{
		{none, "unknown cause", "unknown cause"},
		{&supervisor.Cause{Kind: supervisor.CauseProbe}, "probe", "probe"},
		{&supervisor.Cause{Kind: supervisor.CauseSpawn, Err: fs.ErrNotExist}, "file does not exist", "file does not exist"},
		{&supervisor.Cause{Kind: supervisor.CauseSpawn, Message: "no such command", Err: fs.ErrNotExist}, "no such command", "no such command"},
		{
			&supervisor.Cause{Kind: supervisor.CauseExit, Message: "exit status 3", Stderr: []string{"loading", "boom"}},
			"exit status 3", "exit status 3; stderr: loading | boom",
		},
	} {
		require.Equal(t, c.message, c.cause.Error())
		require.Equal(t, c.described, c.cause.Describe())
	}
	require.NoError(t, none.Unwrap())
}

func TestCauseIsAnErrorThatUnwraps(t *testing.T) {
	var err error = &supervisor.Cause{Kind: supervisor.CauseConfig, Message: "command not found", Err: fs.ErrNotExist}
	require.ErrorIs(t, err, fs.ErrNotExist)
	var cause *supervisor.Cause
	require.True(t, errors.As(err, &cause))
	require.Equal(t, supervisor.CauseConfig, cause.Kind)
}

func TestCauseInJSONKeepsExitCodeZero(t *testing.T) {
	zero := 0
	b, err := json.Marshal(&supervisor.Cause{Kind: supervisor.CauseExit, Message: "exit status 0", ExitCode: &zero, Err: fs.ErrClosed})
	require.NoError(t, err)
	require.JSONEq(t, `{"kind":"exit","message":"exit status 0","exitCode":0}`, string(b))
}
