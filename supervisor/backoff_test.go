package supervisor_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

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
