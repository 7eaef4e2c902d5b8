//go:build !linux

package poll

import "os"

// Poller is for Linux. Elsewhere it watches nothing.
type Poller struct{}

// Watch is a file that a Poller watches.
type Watch struct{}

// Watch returns nil: the file must have a goroutine.
func (*Poller) Watch(*os.File, func()) *Watch { return nil }

// Arm is never called.
func (*Watch) Arm() (ok bool) { return false }

// Disarm is never called.
func (*Watch) Disarm() {}

// Remove is never called.
func (*Watch) Remove() {}
