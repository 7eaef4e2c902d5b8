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

	"github.com/mcpvisor/mcpvisor"
)

var key = mcpvisor.TokenKey{Server: "https://mcp.example/mcp", Client: "me"}

func stores(t *testing.T) map[string]mcpvisor.TokenStore {
	t.Helper()
	files, err := NewFileStore(filepath.Join(t.TempDir(), "deep", "tokens"))
	require.NoError(t, err)
	return map[string]mcpvisor.TokenStore{"memory": NewMemoryStore(), "files": files}
}

func TestStores(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			got, err := s.Load(ctx, key)
			require.NoError(t, err)
			require.Nil(t, got)
			require.NoError(t, s.Delete(ctx, key))
			a := &mcpvisor.Authorization{Issuer: "https://auth.example", AccessToken: "access", RefreshToken: "refresh",
				Expires: time.Now().Add(time.Hour).Round(0), Scopes: []string{"a"}}
			require.NoError(t, s.Save(ctx, key, a))
			a.Scopes[0] = "changed afterwards"
			got, err = s.Load(ctx, key)
			require.NoError(t, err)
			require.Equal(t, []string{"a"}, got.Scopes)
			require.Equal(t, "refresh", got.RefreshToken)
			require.True(t, a.Expires.Equal(got.Expires))
			other := key
			other.Account = "second"
			got, err = s.Load(ctx, other)
			require.NoError(t, err)
			require.Nil(t, got, "another account")
			require.NoError(t, s.Delete(ctx, key))
			got, err = s.Load(ctx, key)
			require.NoError(t, err)
			require.Nil(t, got)
		})
	}
}

func TestStoresLock(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			locker := s.(mcpvisor.TokenLocker)
			unlock, err := locker.Lock(t.Context(), key)
			require.NoError(t, err)
			short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err = locker.Lock(short, key)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			got := make(chan error, 1)
			go func() {
				free, err := locker.Lock(context.Background(), key)
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

func TestFilesAreForTheirOwnerOnly(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("has no such modes")
	}
	dir := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.Mkdir(dir, 0o777))
	s, err := NewFileStore(dir)
	require.NoError(t, err)
	require.NoError(t, s.Save(t.Context(), key, &mcpvisor.Authorization{RefreshToken: "refresh"}))
	unlock, err := s.(mcpvisor.TokenLocker).Lock(t.Context(), key)
	require.NoError(t, err)
	defer unlock()
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "the tokens and the lock, and nothing half written")
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), e.Name())
		require.NotContains(t, e.Name(), "example")
	}
}

func TestFileIsWholeForItsReaders(t *testing.T) {
	s, err := NewFileStore(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, s.Save(t.Context(), key, &mcpvisor.Authorization{RefreshToken: "0"}))
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < 50 && err == nil; i++ {
			err = s.Save(context.Background(), key, &mcpvisor.Authorization{RefreshToken: fmt.Sprint(i)})
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
		a, err := s.Load(t.Context(), key)
		require.NoError(t, err)
		require.NotEmpty(t, a.RefreshToken)
	}
}

// What a process left behind that was killed while it wrote is removed; what
// another is writing is not.
func TestFilesLeftBehind(t *testing.T) {
	dir := t.TempDir()
	s, err := NewFileStore(dir)
	require.NoError(t, err)
	old, fresh := filepath.Join(dir, ".new-1"), filepath.Join(dir, ".new-2")
	for _, path := range []string{old, fresh} {
		require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	}
	long := time.Now().Add(-2 * newFileAge)
	require.NoError(t, os.Chtimes(old, long, long))
	require.NoError(t, s.Save(t.Context(), key, &mcpvisor.Authorization{}))
	require.NoFileExists(t, old)
	require.FileExists(t, fresh)
}

func TestFileThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	s, err := NewFileStore(dir)
	require.NoError(t, err)
	require.NoError(t, s.Save(t.Context(), key, &mcpvisor.Authorization{}))
	path := s.(*fileStore).path(key, ".json")
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	_, err = s.Load(t.Context(), key)
	require.ErrorContains(t, err, "delete the file")
	require.NoError(t, s.Save(t.Context(), key, &mcpvisor.Authorization{}), "it is replaced as if it were not there")
}

// A file that was put under another name is of another server.
func TestFileOfAnotherKey(t *testing.T) {
	s, err := NewFileStore(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, s.Save(t.Context(), key, &mcpvisor.Authorization{AccessToken: "access"}))
	other := mcpvisor.TokenKey{Server: "https://evil.example/mcp"}
	path := s.(*fileStore).path
	require.NoError(t, os.Rename(path(key, ".json"), path(other, ".json")))
	_, err = s.Load(t.Context(), other)
	require.ErrorIs(t, err, errSpoiled)
}

// What could not be put in its place is not left beside it.
func TestFileThatCannotBeReplaced(t *testing.T) {
	dir := t.TempDir()
	s, err := NewFileStore(dir)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(s.(*fileStore).path(key, ".json"), 0o700))
	require.ErrorContains(t, s.Save(t.Context(), key, &mcpvisor.Authorization{RefreshToken: "refresh"}), "choose another store")
	left, err := filepath.Glob(filepath.Join(dir, newFile))
	require.NoError(t, err)
	require.Empty(t, left)
}
