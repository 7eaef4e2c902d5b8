//go:build !linux

package guard

import (
	"context"
	"time"
)

// Guard watches over the exclusive servers of this node.
type Guard struct{}

// Main runs the guard if this process was started as one, and does not return then. Call it first of
// all in main, and in TestMain.
func Main(Release) {}

// Start starts the guard of this node.
func Start(context.Context, Config) (*Guard, error) { return nil, ErrUnsupported }

// Env returns the entry that the environment of each exclusive server must have.
func (*Guard) Env() (name, value string) { return "", "" }

// SetDeadline moves the deadline.
func (*Guard) SetDeadline(time.Duration) {}

// Confirm waits until the guard has learned of everything that was said before.
func (*Guard) Confirm(context.Context) error { return ErrUnsupported }

// Hold names the process of a server, which leads its group.
func (*Guard) Hold(int) {}

// Forget takes a process back that has ended.
func (*Guard) Forget(int) {}

// Close says goodbye: the servers have ended, and the guard exits.
func (*Guard) Close() {}
