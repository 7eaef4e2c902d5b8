//go:build !linux

package process

import "os"

// What only Linux can do is missing here: a process that leaves its group or its job
// object is out of reach. docs/rough-edges.md says so to users.

func (*processGroup) tagAgain() {}

func (*processGroup) killDescendants() error { return nil }

// exiting returns false: other systems do not show it.
func (*processGroup) exiting() bool { return false }

// IsAlone returns false: other systems do not show it.
func IsAlone(int) bool { return false }

// dead returns false: other systems do not show it before the exit status is known.
func (*processGroup) dead() bool { return false }

// onExit reports false: waitExit waits for the exit.
func (*processGroup) onExit(func()) bool { return false }

func keepShared() {} // servers share nothing here

func releaseShared() {}

// growPipe does nothing: other systems size their pipes by themselves.
func growPipe(*os.File) {}
