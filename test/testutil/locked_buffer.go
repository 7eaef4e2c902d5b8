// Package testutil holds what tests of several packages need. Only tests import it.
package testutil

import (
	"bytes"
	"sync"
)

// LockedBuffer is a buffer that one goroutine reads while others write to it, such as
// a log or the stderr of a process. The zero value is empty and ready to use.
type LockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

// Write implements io.Writer.
func (b *LockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns everything that was written so far.
func (b *LockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
