package display

import (
	"fmt"
	"time"
)

// Duration returns a duration for a narrow column, at most seven characters up to a
// thousand days: "0s", "412ms", "3.2s", "47s", "12m08s", "3h12m", "4d07h". It is cut and
// not rounded, so that an age is never shown before it is reached. Negative durations are
// 0s.
func Duration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "0s"
	case d < time.Second:
		return fmt.Sprintf("%dms", d/time.Millisecond)
	case d < 10*time.Second:
		return fmt.Sprintf("%d.%ds", d/time.Second, d%time.Second/(100*time.Millisecond))
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	const day = 24 * time.Hour
	return fmt.Sprintf("%dd%02dh", d/day, d%day/time.Hour)
}
