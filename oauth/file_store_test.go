package oauth

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// testKey is the key of most tests.
var testKey = TokenKey{Server: "https://mcp.example/mcp", Client: "me"}

func stores(t *testing.T) map[string]TokenStore {
	t.Helper()
	files, err := NewFileStore(filepath.Join(t.TempDir(), "deep", "tokens"))
	require.NoError(t, err)
	return map[string]TokenStore{"memory": NewMemoryStore(), "files": files}
}

func TestStore(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			got, err := s.Load(ctx, testKey)
			require.NoError(t, err)
			require.Nil(t, got)
			require.NoError(t, s.Delete(ctx, testKey))
			a := &Authorization{Issuer: "https://auth.example", AccessToken: "access", RefreshToken: "refresh",
				Expires: time.Now().Add(time.Hour).Round(0), Scopes: []string{"a"}}
			require.NoError(t, s.Save(ctx, testKey, a))
			a.Scopes[0] = "changed after Save"
			got, err = s.Load(ctx, testKey)
			require.NoError(t, err)
			require.Equal(t, []string{"a"}, got.Scopes)
			require.Equal(t, "refresh", got.RefreshToken)
			require.True(t, a.Expires.Equal(got.Expires))
			other := testKey
			other.Account = "second"
			got, err = s.Load(ctx, other)
			require.NoError(t, err)
			require.Nil(t, got, "another account")
			require.NoError(t, s.Delete(ctx, testKey))
			got, err = s.Load(ctx, testKey)
			require.NoError(t, err)
			require.Nil(t, got)
		})
	}
}

func TestTokenLocker(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			locker := s.(TokenLocker)
			unlock, err := locker.Lock(t.Context(), testKey)
			require.NoError(t, err)
			short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err = locker.Lock(short, testKey)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			got := make(chan error, 1)
			go func() {
				free, err := locker.Lock(context.Background(), testKey)
				if err == nil {
					free()
				}
				got <- err
			}()
			unlock()
			require.NoError(t, <-got)
		})
	}
}

func TestFile_modes_for_owner_only(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	dir := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.Mkdir(dir, 0o777))
	s, err := NewFileStore(dir)
	require.NoError(t, err)
	require.NoError(t, s.Save(t.Context(), testKey, &Authorization{RefreshToken: "refresh"}))
	unlock, err := s.(TokenLocker).Lock(t.Context(), testKey)
	require.NoError(t, err)
	defer unlock()
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "the tokens and the lock, and no temporary file")
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), e.Name())
		require.NotContains(t, e.Name(), "example")
	}
}

// A reader sees the old or the new content of a file, and no part of it.
func TestFile_load_during_save(t *testing.T) {
	s, err := NewFileStore(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, s.Save(t.Context(), testKey, &Authorization{RefreshToken: "0"}))
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < 50 && err == nil; i++ {
			err = s.Save(context.Background(), testKey, &Authorization{RefreshToken: fmt.Sprint(i)})
		}
		done <- err
	}()
	for running := true; running; {
		select {
		case err := <-done:
			require.NoError(t, err)
			running = false
		default:
		}
		a, err := s.Load(t.Context(), testKey)
		require.NoError(t, err)
		require.NotEmpty(t, a.RefreshToken)
	}
}

// Save removes the temporary file of a process that was killed, and not one that
// another process is writing.
func TestFile_stale_temporary_files(t *testing.T) {
	dir := t.TempDir()
	s, err := NewFileStore(dir)
	require.NoError(t, err)
	stale, fresh := filepath.Join(dir, ".new-1"), filepath.Join(dir, ".new-2")
	for _, path := range []string{stale, fresh} {
		require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	}
	modified := time.Now().Add(-2 * maxTempAge)
	require.NoError(t, os.Chtimes(stale, modified, modified))
	require.NoError(t, s.Save(t.Context(), testKey, &Authorization{}))
	require.NoFileExists(t, stale)
	require.FileExists(t, fresh)
}

func TestFile_not_parsable(t *testing.T) {
	dir := t.TempDir()
	s, err := NewFileStore(dir)
	require.NoError(t, err)
	require.NoError(t, s.Save(t.Context(), testKey, &Authorization{}))
	path := s.(fileStore).path(testKey, ".json")
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	_, err = s.Load(t.Context(), testKey)
	require.ErrorContains(t, err, "delete the file")
	require.NoError(t, s.Save(t.Context(), testKey, &Authorization{}), "Save replaces it")
}

// A file that was renamed to the name of another key is not used for that key.
func TestFile_of_another_key(t *testing.T) {
	s, err := NewFileStore(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, s.Save(t.Context(), testKey, &Authorization{AccessToken: "access"}))
	other := TokenKey{Server: "https://evil.example/mcp"}
	path := s.(fileStore).path
	require.NoError(t, os.Rename(path(testKey, ".json"), path(other, ".json")))
	_, err = s.Load(t.Context(), other)
	require.ErrorIs(t, err, errUnreadable)
}

// If the rename fails, Save removes the temporary file.
func TestFile_rename_fails(t *testing.T) {
	dir := t.TempDir()
	s, err := NewFileStore(dir)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(s.(fileStore).path(testKey, ".json"), 0o700))
	require.ErrorContains(t, s.Save(t.Context(), testKey, &Authorization{RefreshToken: "refresh"}), "choose another store")
	left, err := filepath.Glob(filepath.Join(dir, tempPattern))
	require.NoError(t, err)
	require.Empty(t, left)
}
