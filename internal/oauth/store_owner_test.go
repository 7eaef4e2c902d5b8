//go:build linux

package oauth

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// stranger is a user that this process is not.
const stranger = 65534

// needRoot skips what only the superuser can prepare.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs to be the superuser, to give files away")
	}
}

func TestFileStore_directory_of_another_user(t *testing.T) {
	needRoot(t)
	dir := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.Chmod(dir, 0o777))
	require.NoError(t, os.Chown(dir, stranger, stranger))
	s, err := NewFileStore(dir)
	require.NoError(t, err)
	require.NoError(t, s.Save(t.Context(), key, &mcpvisor.Authorization{RefreshToken: "refresh"}))
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o777), info.Mode().Perm(), "the mode of another user's directory is left alone")
	got, err := s.Load(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, "refresh", got.RefreshToken)

	path := s.(*fileStore).path(key, ".json")
	t.Run("file_of_that_user", func(t *testing.T) {
		require.NoError(t, os.Chown(path, stranger, stranger))
		_, err := s.Load(t.Context(), key)
		require.ErrorContains(t, err, "belongs to another user")
		left, err := filepath.Glob(filepath.Join(dir, newFile))
		require.NoError(t, err)
		require.Empty(t, left)
		require.NoError(t, s.Save(t.Context(), key, &mcpvisor.Authorization{RefreshToken: "second"}))
		got, err := s.Load(t.Context(), key)
		require.NoError(t, err, "it was replaced by one of ours")
		require.Equal(t, "second", got.RefreshToken)
	})
	t.Run("link_for_tokens", func(t *testing.T) {
		elsewhere := filepath.Join(t.TempDir(), "elsewhere")
		require.NoError(t, os.Rename(path, elsewhere))
		require.NoError(t, os.Symlink(elsewhere, path))
		_, err := s.Load(t.Context(), key)
		require.ErrorIs(t, err, syscall.ELOOP)
		require.NoError(t, os.Remove(path))
	})
	t.Run("link_for_lock", func(t *testing.T) {
		lock := s.(*fileStore).path(key, ".lock")
		elsewhere := filepath.Join(t.TempDir(), "elsewhere")
		require.NoError(t, os.Symlink(elsewhere, lock))
		_, err := s.(mcpvisor.TokenLocker).Lock(t.Context(), key)
		require.ErrorIs(t, err, syscall.ELOOP)
		require.NoFileExists(t, elsewhere)
	})
	t.Run("pipe", func(t *testing.T) {
		require.NoError(t, syscall.Mkfifo(path, 0o600))
		_, err := s.Load(t.Context(), key)
		require.ErrorContains(t, err, "not a regular file")
	})
}

// A directory that is ours is closed, and files of the superuser are trusted.
func TestFileStore_own_directory(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o777))
	s, err := NewFileStore(dir)
	require.NoError(t, err)
	require.NoError(t, s.Save(t.Context(), key, &mcpvisor.Authorization{RefreshToken: strings.Repeat("r", 100)}))
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	_, err = s.Load(t.Context(), key)
	require.NoError(t, err)
}
