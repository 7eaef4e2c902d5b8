package runner

import "time"

// SetClock replaces the clock before Run.
func (r *Runner) SetClock(now func() time.Duration) { r.now = now }
