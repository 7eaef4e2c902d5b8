package oauth

import "time"

// Two clocks measure a life that a server has granted: the monotonic one stands
// still while the machine is suspended, and the wall clock may be set. Whichever
// is ahead counts.

// passed reports whether the time t has come.
func passed(t, now time.Time) bool {
	return !now.Before(t) || !now.Round(0).Before(t.Round(0))
}

// lived is how long ago t was.
func lived(t, now time.Time) time.Duration {
	return max(now.Sub(t), now.Round(0).Sub(t.Round(0)))
}
