//go:build linux || darwin

package boottime

import (
	"time"

	"golang.org/x/sys/unix"
)

func read(clock int32) time.Duration {
	var at unix.Timespec
	if err := unix.ClockGettime(clock, &at); err != nil {
		panic("boottime: " + err.Error()) // only an unknown clock fails
	}
	return time.Duration(at.Nano())
}
