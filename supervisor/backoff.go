package supervisor

import "time"

// Delay is the wait before the given attempt, counted from 1: Base, 2·Base,
// 4·Base, …, capped by Max, then spread by Jitter. rnd is a random number in
// [0, 1); it is not looked at when Jitter is 0, so the delays are then exact.
// The result never overflows and is never negative.
func (p Policy) Delay(attempt int, rnd float64) time.Duration {
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
		d = time.Duration(float64(d) * (1 - p.Jitter + 2*p.Jitter*rnd))
	}
	return max(d, 0)
}
