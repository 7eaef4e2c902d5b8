// Package clock compares times that must stay right while the machine sleeps.
//
// Go compares two times by the monotonic clock if both have a reading of it.
// That clock stands still while the machine is suspended, and the wall clock may
// be set back. A token or an authorization request expires on the server's
// clock in both cases, so the functions here use the clock that is ahead.
package clock

import "time"

// Reached reports whether the time t has come, by either clock.
func Reached(t, now time.Time) bool {
	return !now.Before(t) || !now.Round(0).Before(t.Round(0))
}

// Elapsed returns the time from t to now, by the clock that shows more.
func Elapsed(t, now time.Time) time.Duration {
	return max(now.Sub(t), now.Round(0).Sub(t.Round(0)))
}
