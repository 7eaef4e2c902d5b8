package boottime

import (
	"time"

	"golang.org/x/sys/windows"
)

// now has a resolution of 10 to 16 ms.
func now() time.Duration { return windows.DurationSinceBoot() }
