package filelock_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/filelock"
)

const lockVariable = "MCPVISOR_TEST_FILELOCK"

// TestMain is also the process that holds a lock until it is killed.
func TestMain(m *testing.M) {
	if path := os.Getenv(lockVariable); path != "" {
		if _, busy, err := filelock.TryLock(path); busy || err != nil {
			panic("the lock is not free")
		}
		_, _ = os.Stdout.WriteString("locked\n")
		select {}
	}
	os.Exit(m.Run())
}

func TestTryLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.lock")
	unlock, busy, err := filelock.TryLock(path)
	require.NoError(t, err)
	require.False(t, busy)
	_, busy, err = filelock.TryLock(path)
	require.NoError(t, err)
	require.True(t, busy, "the same process")
	unlock()
	unlock, busy, err = filelock.TryLock(path)
	require.NoError(t, err)
	require.False(t, busy)
	unlock()
	if runtime.GOOS != "windows" {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
}

// The end of a process releases its lock.
func TestTryLock_after_a_kill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.lock")
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), lockVariable+"="+path)
	out, err := other.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, other.Start())
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	_, busy, err := filelock.TryLock(path)
	require.NoError(t, err)
	require.True(t, busy)
	require.NoError(t, other.Process.Kill())
	_ = other.Wait()
	unlock, busy, err := filelock.TryLock(path)
	require.NoError(t, err)
	require.False(t, busy)
	unlock()
}

func TestTryLock_symbolic_link(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege on Windows")
	}
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(filepath.Join(dir, "target"), link))
	_, _, err := filelock.TryLock(link)
	require.Error(t, err)
	require.NoFileExists(t, filepath.Join(dir, "target"))
}
