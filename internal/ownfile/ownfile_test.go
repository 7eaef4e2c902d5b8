//go:build unix

package ownfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/ownfile"
)

// A directory that was exchanged after its checks gets no file.
func TestDir_exchanged(t *testing.T) {
	base := t.TempDir()
	path, moved, victim := filepath.Join(base, "dir"), filepath.Join(base, "moved"), filepath.Join(base, "victim")
	dir, err := ownfile.OpenDir(path, true)
	require.NoError(t, err)
	defer dir.Close()
	require.NoError(t, os.WriteFile(victim, []byte("kept"), 0o600))
	require.NoError(t, os.Rename(path, moved))
	require.NoError(t, os.Mkdir(path, 0o700))
	require.NoError(t, os.Symlink(victim, filepath.Join(path, "log")))

	f, err := dir.OpenFile("log", os.O_CREATE|os.O_WRONLY|os.O_TRUNC)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.FileExists(t, filepath.Join(moved, "log"))
	kept, err := os.ReadFile(victim)
	require.NoError(t, err)
	require.Equal(t, "kept", string(kept))
}

func TestOpenDir_mode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dir")
	_, err := ownfile.OpenDir(path, false)
	require.ErrorIs(t, err, os.ErrNotExist)
	for mode, refused := range map[os.FileMode]bool{0o700: false, 0o711: false, 0o755: true, 0o770: true, 0o722: true} {
		_ = os.Remove(path)
		require.NoError(t, os.Mkdir(path, 0o700))
		require.NoError(t, os.Chmod(path, mode))
		dir, err := ownfile.OpenDir(path, false)
		require.Equal(t, refused, err != nil, "%v", mode)
		if err == nil {
			dir.Close()
		}
	}
}
