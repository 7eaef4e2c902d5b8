//go:build unix

package headerauth_test

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/headerauth"
)

// What the program has started is killed with it.
func TestDetach_kills_the_group(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	s := &headerauth.Source{Command: []string{"/bin/sh", "-c", `sleep 600 3>"$FIFO" & wait`}, Env: map[string]string{"FIFO": fifo}}
	a, err := s.NewAuthorizer(nil, nil)
	require.NoError(t, err)
	a.Attach(t.Context())
	asked := make(chan error, 1)
	go func() { _, err := a.Credential(t.Context()); asked <- err }()
	child, err := os.Open(fifo) // waits until the child has opened it
	require.NoError(t, err)
	defer func() { _ = child.Close() }()
	a.Detach(0)
	require.ErrorContains(t, <-asked, "the session ended")
	ended := make(chan error, 1)
	go func() { _, err := io.ReadAll(child); ended <- err }()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(testTimeout):
		t.Fatal("the child is still running")
	}
}
