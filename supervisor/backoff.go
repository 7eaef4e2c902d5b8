package supervisor

import (
	"math"
	"time"
)

// Delay is the wait before the given attempt, counted from 1: Base, 2·Base, 4·Base, …,
// at most Max, then spread by Jitter. An attempt below 1 counts as the first. rnd is a random number in [0, 1), which is used
// only if Jitter is set. A number out of range counts as the nearest end of the range,
// and NaN as its middle. The result never overflows and is never negative.
func (p Policy) Delay(attempt int, rnd float64) time.Duration {
	if p.Base <= 0 {
		return 0
	}
	limit := p.Max
	if limit <= 0 {
		limit = max(DefaultMaxDelay, p.Base)
	}
	d := p.Base
	for i := 1; i < attempt && d < limit; i++ {
		if d > limit/2 {
			d = limit
			break
		}
		d *= 2
	}
	d = min(d, limit)
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
