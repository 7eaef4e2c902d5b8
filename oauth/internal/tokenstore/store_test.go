package tokenstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zalando/go-keyring"
	"go.uber.org/goleak"
)

// The types of package oauth, as far as the tests need them.
type (
	testKeyType struct{ Server, Client, Account string }
	testKeyring = Keyring[testKeyType]
)

var (
	newFile    = NewFile[testKeyType]
	newKeyring = NewKeyring[testKeyType]
)

// testKey is the key of most tests.
var testKey = testKeyType{Server: "https://mcp.example/mcp", Client: "me"}

func TestFile_modes_for_owner_only(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	dir := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.Mkdir(dir, 0o777))
	s, err := newFile(dir)
	require.NoError(t, err)
	require.NoError(t, s.Save(t.Context(), testKey, []byte(`{"access_token":"refresh"}`)))
	unlock, err := s.Lock(t.Context(), testKey)
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
	s, err := newFile(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, s.Save(t.Context(), testKey, []byte(`{"refresh_token":"0"}`)))
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < 50 && err == nil; i++ {
			err = s.Save(context.Background(), testKey, fmt.Appendf(nil, `{"refresh_token":"%d"}`, i))
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
		require.Regexp(t, `^{\s*"refresh_token": "\d+"\s*}$`, string(a))
	}
}

// Save removes the temporary file of a process that was killed, and not one that
// another process is writing.
func TestFile_stale_temporary_files(t *testing.T) {
	dir := t.TempDir()
	s, err := newFile(dir)
	require.NoError(t, err)
	stale, fresh := filepath.Join(dir, ".new-1"), filepath.Join(dir, ".new-2")
	for _, path := range []string{stale, fresh} {
		require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	}
	modified := time.Now().Add(-2 * maxTempAge)
	require.NoError(t, os.Chtimes(stale, modified, modified))
	require.NoError(t, s.Save(t.Context(), testKey, []byte(`{"access_token":""}`)))
	require.NoFileExists(t, stale)
	require.FileExists(t, fresh)
}

func TestFile_not_parsable(t *testing.T) {
	dir := t.TempDir()
	s, err := newFile(dir)
	require.NoError(t, err)
	require.NoError(t, s.Save(t.Context(), testKey, []byte(`{"access_token":""}`)))
	path := s.path(testKey, ".json")
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	_, err = s.Load(t.Context(), testKey)
	require.ErrorContains(t, err, "delete the file")
	require.NoError(t, s.Save(t.Context(), testKey, []byte(`{"access_token":""}`)), "Save replaces it")
}

// A file that was renamed to the name of another key is not used for that key.
func TestFile_of_another_key(t *testing.T) {
	s, err := newFile(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, s.Save(t.Context(), testKey, []byte(`{"access_token":"access"}`)))
	other := testKeyType{Server: "https://evil.example/mcp"}
	path := s.path
	require.NoError(t, os.Rename(path(testKey, ".json"), path(other, ".json")))
	_, err = s.Load(t.Context(), other)
	require.ErrorIs(t, err, ErrUnreadable)
}

// If the rename fails, Save removes the temporary file.
func TestFile_rename_fails(t *testing.T) {
	dir := t.TempDir()
	s, err := newFile(dir)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(s.path(testKey, ".json"), 0o700))
	require.ErrorContains(t, s.Save(t.Context(), testKey, []byte(`{"access_token":"refresh"}`)), "choose another store")
	left, err := filepath.Glob(filepath.Join(dir, tempPattern))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestKeyring(t *testing.T) {
	keyring.MockInit()
	s := newKeyring()
	key := testKeyType{Server: "https://mcp.example/mcp", Client: "c"}
	other := testKeyType{Server: "https://mcp.example/mcp", Client: "d"}
	none, err := s.Load(t.Context(), key)
	require.NoError(t, err)
	require.Nil(t, none)
	require.NoError(t, s.Delete(t.Context(), key), "deleting a missing entry is no error")

	want := []byte(`{"access_token":"access","refresh_token":"refresh"}`)
	require.NoError(t, s.Save(t.Context(), key, want))
	got, err := newKeyring().Load(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, want, got)
	none, err = s.Load(t.Context(), other)
	require.NoError(t, err)
	require.Nil(t, none, "each key has an entry of its own")
	require.NoError(t, s.Delete(t.Context(), key))
	none, err = s.Load(t.Context(), key)
	require.NoError(t, err)
	require.Nil(t, none)
}

func TestKeyring_fails(t *testing.T) {
	key := testKeyType{Server: "https://mcp.example/mcp"}
	for _, failure := range []error{errors.New("it is locked"), keyring.ErrSetDataTooBig} {
		keyring.MockInitWithError(failure)
		s := newKeyring()
		_, err := s.Load(t.Context(), key)
		require.ErrorIs(t, err, failure)
		err = s.Save(t.Context(), key, []byte(`{"access_token":"access-token-canary"}`))
		require.ErrorIs(t, err, failure)
		require.NotContains(t, err.Error(), "canary")
		require.ErrorContains(t, err, "files", "the error says what to do")
		require.ErrorIs(t, s.Delete(t.Context(), key), failure)
	}
}

// A keyring that asks the user for a password delays no caller beyond its context.
func TestKeyring_hangs(t *testing.T) {
	answer := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	ended := make(chan struct{})
	_, err := (testKeyring{}).access(ctx, func() (string, error) { defer close(ended); <-answer; return "", nil })
	require.ErrorIs(t, err, context.DeadlineExceeded)

	// The next access waits for it, so a late write overwrites nothing.
	next := make(chan error, 1)
	go func() {
		_, err := (testKeyring{}).access(context.Background(), func() (string, error) {
			select {
			case <-ended:
				return "", nil
			default:
				return "", errors.New("the earlier access still runs")
			}
		})
		next <- err
	}()
	require.Never(t, func() bool { return len(next) > 0 }, 50*time.Millisecond, 5*time.Millisecond)
	close(answer)
	require.NoError(t, <-next)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
