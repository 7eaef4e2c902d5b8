package supervisor

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/internal/defaults"
)

// Unlimited, as MaxAttempts, retries without end. It is never a default.
const Unlimited = -1

// Policy says what happens after a session ended by itself: how often and how soon the server is
// tried again, and what follows when that fails. The zero value is [NoRetry]; [Retry] makes the
// usual policies. A Policy is a plain value, which may be copied and compared with ==. In JSON,
// durations are nanoseconds.
//
// A permanent cause ([Cause.Permanent]) overrides it: the server is evicted at once, or
// waits for its authorization, and no attempt is made.
type Policy struct {
	// MaxAttempts is the retry budget: how many times in a row the server is started again before
	// it is evicted or parked. The first start is not counted, so 3 means at most 4 starts in a
	// row. 0 means none: the server is evicted ([NoRetry]), or parked and tried again at each
	// ParkEvery if that is set. [Unlimited] means no bound.
	MaxAttempts int `json:"maxAttempts"`
	// Base is the delay before the first retry; each further attempt doubles it. 0
	// retries at once, and requires a bounded MaxAttempts.
	Base time.Duration `json:"base,omitempty"`
	// Max is the longest single delay, before Jitter. 0 means 5 min, or Base if
	// longer; otherwise it must be at least Base.
	Max time.Duration `json:"max,omitempty"`
	// Jitter spreads each delay d uniformly over [d·(1−Jitter), d·(1+Jitter)].
	// It lies between 0 and 1. 0 (the default) keeps the delays exact; 0.2 is a good
	// choice where many hosts share a server.
	Jitter float64 `json:"jitter,omitempty"`
	// StableAfter is how long a session must stay ready before the budget is reset. 0
	// means 10 s. A server that becomes ready and crashes sooner than
	// this keeps spending its budget.
	StableAfter time.Duration `json:"stableAfter,omitempty"`
	// ParkEvery, if set, parks the server when the budget is spent, instead of evicting
	// it: one attempt is made after each such interval. 0 (the default) evicts.
	ParkEvery time.Duration `json:"parkEvery,omitempty"`
	// Intensity bounds restarts over a window of time, in addition to the budget. The
	// zero value (the default) sets no such bound. Set both of its fields, or neither.
	Intensity Intensity `json:"intensity,omitzero"`
}

// Intensity is the restart intensity of OTP. If more than Restarts sessions end by
// themselves within Window, the budget counts as spent. Both fields must be above zero,
// or both zero for no bound.
type Intensity struct {
	// Restarts is how many ends within Window are tolerated.
	Restarts int `json:"restarts"`
	// Window is the length of the sliding window.
	Window time.Duration `json:"window"`
}

// NoRetry returns the policy that evicts a server when its first session ends by itself. It
// is the zero value.
func NoRetry() Policy { return Policy{} }

// RetryOption changes a policy that [Retry] makes.
type RetryOption func(*Policy)

// Retry makes a policy of exponential delays (base, 2·base, 4·base, …) for at most
// maxAttempts attempts in a row; [Unlimited] sets no bound. The longest delay is
// 5 min, and there is no jitter, unless an option says otherwise.
//
//	supervisor.Retry(3, 500*time.Millisecond)                  // 500 ms, 1 s, 2 s, then evict
//	supervisor.Retry(supervisor.Unlimited, time.Second,
//		supervisor.WithMaxDelay(time.Minute), supervisor.WithJitter(0.2))
//	supervisor.Retry(5, time.Second, supervisor.WithParking(10*time.Minute))
func Retry(maxAttempts int, base time.Duration, opts ...RetryOption) Policy {
	p := Policy{MaxAttempts: maxAttempts, Base: base}
	for _, o := range opts {
		if o != nil {
			o(&p)
		}
	}
	return p
}

// WithMaxDelay sets [Policy.Max], the longest single delay. Default 5 minutes.
func WithMaxDelay(d time.Duration) RetryOption { return func(p *Policy) { p.Max = d } }

// WithJitter sets [Policy.Jitter]: each delay is spread over ± that fraction of it.
// Between 0 and 1; default 0, exact delays.
func WithJitter(fraction float64) RetryOption { return func(p *Policy) { p.Jitter = fraction } }

// WithStableAfter sets [Policy.StableAfter]: how long a session must stay ready before
// the budget is reset. Default 10 seconds.
func WithStableAfter(d time.Duration) RetryOption { return func(p *Policy) { p.StableAfter = d } }

// WithParking sets [Policy.ParkEvery]: when the budget is spent, the server is tried
// again at that interval instead of being evicted. A permanent cause (see [Cause].Permanent)
// still evicts it.
func WithParking(every time.Duration) RetryOption { return func(p *Policy) { p.ParkEvery = every } }

// WithIntensity sets [Policy.Intensity]: more than restarts ends within window count as
// a spent budget.
func WithIntensity(restarts int, window time.Duration) RetryOption {
	return func(p *Policy) { p.Intensity = Intensity{restarts, window} }
}

// Validate returns an error that names every invalid field and how to correct it.
func (p Policy) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("retry policy: "+format, args...)) }
	if p.MaxAttempts < Unlimited {
		bad("MaxAttempts is %d; use 0 for no retry, a positive number, or supervisor.Unlimited", p.MaxAttempts)
	}
	if p.Base < 0 {
		bad("Base is %v; a delay cannot be negative", p.Base)
	}
	if p.MaxAttempts == Unlimited && p.Base == 0 {
		bad("Base is 0 with unlimited attempts; a server that cannot start would be dialled in a tight loop; set a base delay")
	}
	if p.Max < 0 || (p.Max > 0 && p.Max < p.Base) {
		bad("Max is %v; it must be at least Base (%v), or 0 for the default", p.Max, p.Base)
	}
	if p.Jitter < 0 || p.Jitter > 1 || p.Jitter != p.Jitter {
		bad("Jitter is %v; it must lie between 0 and 1", p.Jitter)
	}
	if p.StableAfter < 0 {
		bad("StableAfter is %v; it cannot be negative", p.StableAfter)
	}
	if p.ParkEvery < 0 {
		bad("ParkEvery is %v; it cannot be negative", p.ParkEvery)
	}
	if i := p.Intensity; i.Restarts < 0 || i.Window < 0 || (i.Restarts > 0) != (i.Window > 0) {
		bad("Intensity is %d restarts in %v; set both to more than zero, or neither", i.Restarts, i.Window)
	}
	return errors.Join(errs...)
}

// String describes the policy, as status tables show it.
func (p Policy) String() string {
	s := fmt.Sprintf("retry %d×, %v doubling", p.MaxAttempts, p.Base)
	switch p.MaxAttempts {
	case 0:
		s = "no retry"
	case Unlimited:
		s = fmt.Sprintf("retry without limit, %v doubling", p.Base)
	}
	if p.ParkEvery > 0 {
		s += fmt.Sprintf(", then every %v", p.ParkEvery)
	}
	return s
}

// Delay is the wait before the given attempt, counted from 1: Base, 2·Base, 4·Base, …,
// at most Max, then spread by Jitter. An attempt below 1 counts as the first. rnd is a
// random number in [0, 1), which is used only if Jitter is set. A number out of range
// counts as the nearest end of the range, and NaN as its middle. The result never
// overflows and is never negative.
func (p Policy) Delay(attempt int, rnd float64) time.Duration {
	if p.Base <= 0 {
		return 0
	}
	limit := p.Max
	if limit <= 0 {
		limit = max(defaults.MaxDelay, p.Base)
	}
	d := backoff.Backoff{First: p.Base, Max: limit}.Delay(attempt)
	if p.Jitter > 0 {
		return spread(d, 1-p.Jitter+2*p.Jitter*clampRandom(rnd))
	}
	return d
}

// clampRandom moves a random number into the range from 0 to 1: its source belongs to
// the host.
func clampRandom(rnd float64) float64 {
	if math.IsNaN(rnd) {
		return 0.5
	}
	return min(max(rnd, 0), 1)
}

// spread is d·factor within the range of a Duration. A float beyond that range converts
// to an arbitrary number, on most machines a negative one.
func spread(d time.Duration, factor float64) time.Duration {
	f := float64(d) * factor
	if f >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(max(f, 0))
}
