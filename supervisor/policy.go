package supervisor

import (
	"errors"
	"fmt"
	"time"
)

// Unlimited, as MaxAttempts, retries for ever. It is a choice that must be
// written down; no default leads to it.
const Unlimited = -1

const (
	// DefaultMaxDelay caps a single delay where the policy sets no Max.
	DefaultMaxDelay = 5 * time.Minute
	// DefaultStableAfter is how long a session must have been ready before the
	// retry budget is given back, where the policy sets no StableAfter.
	DefaultStableAfter = 10 * time.Second
)

// Policy says what happens after a server's session ended by itself. The zero
// value is [NoRetry]. Policies are plain values: copy and compare them freely.
type Policy struct {
	// MaxAttempts is how many tries in a row are made before the server is
	// evicted or parked. 0 means none ([NoRetry]), [Unlimited] means no bound.
	MaxAttempts int `json:"maxAttempts"`
	// Base is the first delay; each further attempt doubles it. 0 retries
	// at once, which needs a bounded MaxAttempts.
	Base time.Duration `json:"base,omitempty"`
	// Max caps a single delay. 0 means DefaultMaxDelay, but never less than Base.
	Max time.Duration `json:"max,omitempty"`
	// Jitter spreads each delay d uniformly over [d·(1−Jitter), d·(1+Jitter)].
	// 0 (the default) keeps base, 2·base, 4·base exact; 0.2 is a good choice
	// where many hosts share a server. Between 0 and 1.
	Jitter float64 `json:"jitter,omitempty"`
	// StableAfter is how long a session must stay ready before the budget is
	// given back. 0 means DefaultStableAfter. A server that becomes ready and
	// crashes sooner than this keeps spending its budget.
	StableAfter time.Duration `json:"stableAfter,omitempty"`
	// ParkEvery, if set, parks the server when the budget is spent instead of
	// evicting it, and tries it again at this slow pace.
	ParkEvery time.Duration `json:"parkEvery,omitempty"`
	// Intensity bounds restarts over a window of time, whatever the budget
	// says. The zero value is no such bound.
	Intensity Intensity `json:"intensity,omitzero"`
}

// Intensity is OTP's restart intensity: more than Restarts ends within Window
// spend the budget at once.
type Intensity struct {
	Restarts int           `json:"restarts"`
	Window   time.Duration `json:"window"`
}

// NoRetry evicts a server at its first end.
var NoRetry = Policy{}

// RetryOption adjusts a policy made by [Retry].
type RetryOption func(*Policy)

// Retry makes a policy of exponential delays: base, 2·base, 4·base, … for at
// most maxAttempts tries in a row ([Unlimited] for no bound).
func Retry(maxAttempts int, base time.Duration, opts ...RetryOption) Policy {
	p := Policy{MaxAttempts: maxAttempts, Base: base}
	for _, o := range opts {
		o(&p)
	}
	return p
}

// WithMaxDelay caps a single delay; see [Policy.Max].
func WithMaxDelay(d time.Duration) RetryOption { return func(p *Policy) { p.Max = d } }

// WithJitter spreads delays; see [Policy.Jitter].
func WithJitter(fraction float64) RetryOption { return func(p *Policy) { p.Jitter = fraction } }

// WithStableAfter sets when the budget is given back; see [Policy.StableAfter].
func WithStableAfter(d time.Duration) RetryOption { return func(p *Policy) { p.StableAfter = d } }

// WithParking tries again every d after the budget is spent; see [Policy.ParkEvery].
func WithParking(every time.Duration) RetryOption { return func(p *Policy) { p.ParkEvery = every } }

// WithIntensity bounds restarts over a window; see [Policy.Intensity].
func WithIntensity(restarts int, window time.Duration) RetryOption {
	return func(p *Policy) { p.Intensity = Intensity{restarts, window} }
}

// Retries reports whether the policy ever tries again by itself.
func (p Policy) Retries() bool { return p.MaxAttempts != 0 || p.ParkEvery > 0 }

// Validate reports every field that makes no sense, with the way to mend it.
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
		bad("Base is 0 with unlimited attempts; a server that cannot start would spin: set a base delay")
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

// String says the policy in words, as status tables show it.
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

func (p Policy) stableAfter() time.Duration {
	if p.StableAfter > 0 {
		return p.StableAfter
	}
	return DefaultStableAfter
}
