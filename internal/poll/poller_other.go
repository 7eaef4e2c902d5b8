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

// MinRoom is for Linux.
const MinRoom = 0

// Room is for Linux. Elsewhere nothing is known.
type Room struct{}

// RoomOf returns nil: it is not known.
func RoomOf(*os.File) *Room { return nil }

// Writable is never called.
func (*Room) Writable() bool { return false }
