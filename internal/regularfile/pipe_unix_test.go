//go:build unix

package regularfile

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A pipe is refused and not opened, because that would wait for its writer.
func TestRead_pipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	_, err := Read(path, 10)
	require.ErrorIs(t, err, ErrNotRegular)
}
