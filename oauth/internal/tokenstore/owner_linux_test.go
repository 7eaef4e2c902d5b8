//go:build linux

package tokenstore

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// otherUser is the ID of a user that this process does not run as.
const otherUser = 65534

// requireRoot skips a test that has to change the owner of files.
func requireRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only the superuser can change the owner of a file")
	}
}

func TestFile_directory_of_another_user(t *testing.T) {
	requireRoot(t)
	dir := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.Chmod(dir, 0o777))
	require.NoError(t, os.Chown(dir, otherUser, otherUser))
	s, err := newFile(dir)
	require.NoError(t, err)
	require.NoError(t, s.Save(t.Context(), testKey, []byte(`{"access_token":"refresh"}`)))
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o777), info.Mode().Perm(), "the mode of another user's directory is left alone")
	got, err := s.Load(t.Context(), testKey)
	require.NoError(t, err)
	require.Contains(t, string(got), "refresh")

	path := s.path(testKey, ".json")
	t.Run("file_of_that_user", func(t *testing.T) {
		require.NoError(t, os.Chown(path, otherUser, otherUser))
		_, err := s.Load(t.Context(), testKey)
		require.ErrorContains(t, err, "belongs to another user")
		left, err := filepath.Glob(filepath.Join(dir, tempPattern))
		require.NoError(t, err)
		require.Empty(t, left)
		require.NoError(t, s.Save(t.Context(), testKey, []byte(`{"access_token":"second"}`)))
		got, err := s.Load(t.Context(), testKey)
		require.NoError(t, err, "Save replaced it by a file of this user")
		require.Contains(t, string(got), "second")
	})
	t.Run("symlink_for_tokens", func(t *testing.T) {
		elsewhere := filepath.Join(t.TempDir(), "elsewhere")
		require.NoError(t, os.Rename(path, elsewhere))
		require.NoError(t, os.Symlink(elsewhere, path))
		_, err := s.Load(t.Context(), testKey)
		require.ErrorIs(t, err, syscall.ELOOP)
		require.NoError(t, os.Remove(path))
	})
	t.Run("symlink_for_lock", func(t *testing.T) {
		lock := s.path(testKey, ".lock")
		elsewhere := filepath.Join(t.TempDir(), "elsewhere")
		require.NoError(t, os.Symlink(elsewhere, lock))
		_, err := s.Lock(t.Context(), testKey)
		require.ErrorIs(t, err, syscall.ELOOP)
		require.NoFileExists(t, elsewhere)
	})
	t.Run("named_pipe", func(t *testing.T) {
		require.NoError(t, syscall.Mkfifo(path, 0o600))
		_, err := s.Load(t.Context(), testKey)
		require.ErrorContains(t, err, "not a regular file")
	})
}

// NewFileStore closes the own directory to other users.
func TestFile_own_directory(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o777))
	s, err := newFile(dir)
	require.NoError(t, err)
	require.NoError(t, s.Save(t.Context(), testKey, []byte(`{"refresh_token":"refresh"}`)))
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	_, err = s.Load(t.Context(), testKey)
	require.NoError(t, err)
}
