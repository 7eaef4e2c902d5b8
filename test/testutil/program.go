package testutil

import (
	"os"
	"syscall"
	"testing"
)

// WriteProgram writes a program that its caller can start at once. A child that another goroutine starts
// while the file is open for writing holds it until its exec, and the system refuses to run a program that
// is open for writing ("text file busy"). So no child starts meanwhile.
func WriteProgram(t testing.TB, path string, text []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, text, 0o700) //nolint:gosec // a program is executable
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Error(err)
	}
}
