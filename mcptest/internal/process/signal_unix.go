//go:build unix && !linux

package process

import (
	"errors"
	"os/signal"
	"syscall"
)

// restoreDefault gives a signal its default action, unless it was ignored when the process
// was started.
func restoreDefault(number syscall.Signal) error {
	signal.Reset(number)
	if signal.Ignored(number) {
		return errors.New("it was started so")
	}
	return nil
}
