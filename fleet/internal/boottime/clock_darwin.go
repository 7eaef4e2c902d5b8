package boottime

import (
	"time"

	"golang.org/x/sys/unix"
)

// CLOCK_MONOTONIC of macOS counts sleep, other than that of Linux.
func now() time.Duration { return read(unix.CLOCK_MONOTONIC) }
