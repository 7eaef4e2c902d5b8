// Package boottime reads the clock that fencing deadlines are measured with: it never jumps, and it
// counts the time in which the machine was suspended, which the monotonic clock of package time
// leaves out on Linux. All processes of a machine read the same clock.
package boottime

import "time"

// Now is the time since some start that the machine's processes share.
func Now() time.Duration { return now() }
