package facade

import (
	"time"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

type (
	// Policy says what follows the end of a session; see [supervisor.Policy].
	Policy = supervisor.Policy
	// RetryOption adjusts a policy made by [Retry].
	RetryOption = supervisor.RetryOption
)

// NoRetry evicts a server at its first end.
var NoRetry = supervisor.NoRetry

// Unlimited, as the number of attempts of [Retry], retries for ever.
const Unlimited = supervisor.Unlimited

// Retry waits base, 2·base, 4·base, … between at most maxAttempts tries in a
// row, and then evicts the server, or parks it ([Park]). A server that was never
// ready and ends twice with the same words on stderr is taken for one that is
// configured wrongly, and evicted at once; not so under a policy that parks or is
// [Unlimited].
func Retry(maxAttempts int, base time.Duration, opts ...RetryOption) Policy {
	return supervisor.Retry(maxAttempts, base, opts...)
}

// MaxDelay caps a single delay. Default: 5 minutes.
func MaxDelay(d time.Duration) RetryOption { return supervisor.WithMaxDelay(d) }

// Jitter spreads each delay d over [d·(1−fraction), d·(1+fraction)]. Default: 0,
// so that delays are exact.
func Jitter(fraction float64) RetryOption { return supervisor.WithJitter(fraction) }

// StableAfter is how long a session must be ready before the budget is given
// back. Default: 10 seconds.
func StableAfter(d time.Duration) RetryOption { return supervisor.WithStableAfter(d) }

// Park tries a server whose budget is spent again each time that every has
// passed, instead of evicting it.
func Park(every time.Duration) RetryOption { return supervisor.WithParking(every) }

// WithIntensity lets more than that many ends within a window of time spend the
// budget at once. Default: no such bound.
func WithIntensity(restarts int, window time.Duration) RetryOption {
	return supervisor.WithIntensity(restarts, window)
}
