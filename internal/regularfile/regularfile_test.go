package regularfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	require.NoError(t, os.WriteFile(path, []byte("four"), 0o600))
	data, err := Read(path, 4)
	require.NoError(t, err)
	require.Equal(t, "four", string(data))
	_, err = Read(path, 3)
	require.ErrorContains(t, err, "longer than 3 bytes")
	_, err = Read(dir, 4)
	require.ErrorIs(t, err, ErrNotRegular)
	_, err = Read(filepath.Join(dir, "none"), 4)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// A file system that hangs costs one goroutine for a file, whatever often that is read, and nothing once
// it answers again.
func TestRead_file_system_that_hangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		release := make(chan struct{})
		r := reader{patience: patience, read: func(path string, _ int) ([]byte, error) {
			if path == "hangs" {
				reads.Add(1)
				<-release
			}
			return []byte(path), nil
		}}
		for range 3 {
			_, err := r.readFile("hangs", 9)
			require.ErrorContains(t, err, "read hangs: its file system has not answered within 5s")
			data, err := r.readFile("other", 9)
			require.NoError(t, err)
			require.Equal(t, "other", string(data))
		}
		require.EqualValues(t, 1, reads.Load())
		close(release)
		synctest.Wait()
		data, err := r.readFile("hangs", 9)
		require.NoError(t, err)
		require.Equal(t, "hangs", string(data))
		require.Empty(t, r.hanging)
	})
}
