package socket_test

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/socket"
)

const listensVariable = "MCPVISOR_TEST_SOCKET"

// TestMain is also the process that listens until it is killed.
func TestMain(m *testing.M) {
	if path := os.Getenv(listensVariable); path != "" {
		if _, err := socket.Listen(path, ""); err != nil {
			panic(err)
		}
		_, _ = os.Stdout.WriteString("listening\n")
		select {}
	}
	os.Exit(m.Run())
}

func newPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "mv") //nolint:usetesting // paths of sockets are short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	t.Setenv("XDG_RUNTIME_DIR", dir)
	path, err := socket.Path(filepath.Join(t.TempDir(), "c.json"))
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "mcpvisor"), filepath.Dir(path))
	return path
}

func TestListen(t *testing.T) {
	path := newPath(t)
	_, err := socket.Dial(t.Context(), path)
	require.ErrorIs(t, err, socket.ErrNotRunning)
	l, err := socket.Listen(path, "")
	require.NoError(t, err)
	if runtime.GOOS != "windows" {
		for file, mode := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
			info, err := os.Stat(file)
			require.NoError(t, err)
			require.Equal(t, mode, info.Mode().Perm(), file)
		}
	}
	conn, err := socket.Dial(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, conn.Close())

	_, err = socket.Listen(path, "")
	var inUse *socket.InUseError
	require.ErrorAs(t, err, &inUse)
	require.Equal(t, os.Getpid(), inUse.PID)

	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	require.NoFileExists(t, path)
	_, err = socket.Dial(t.Context(), path)
	require.ErrorIs(t, err, socket.ErrNotRunning)
	again, err := socket.Listen(path, "")
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

// A socket that a killed process has left is replaced; that of a live one is not.
func TestListen_after_a_kill(t *testing.T) {
	path := newPath(t)
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), listensVariable+"="+path)
	out, err := other.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, other.Start())
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)

	_, err = socket.Listen(path, "")
	var inUse *socket.InUseError
	require.ErrorAs(t, err, &inUse)
	require.Equal(t, other.Process.Pid, inUse.PID)

	require.NoError(t, other.Process.Kill())
	_ = other.Wait()
	require.FileExists(t, path)
	_, err = socket.Dial(t.Context(), path)
	require.ErrorIs(t, err, socket.ErrNotRunning)
	l, err := socket.Listen(path, "")
	require.NoError(t, err)
	conn, err := net.Dial("unix", path)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.NoError(t, l.Close())
}

// A directory that other users can enter is used by neither side.
func TestListen_open_directory(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the mode of a directory has no meaning on Windows")
	}
	path := newPath(t)
	require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
	require.NoError(t, os.Chmod(filepath.Dir(path), 0o755))
	_, err := socket.Listen(path, "")
	require.ErrorContains(t, err, "open to other users")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err = socket.Dial(t.Context(), path)
	require.ErrorContains(t, err, "open to other users")
}

func TestPath(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", "/tmp")
	file, link := filepath.Join(dir, "a.json"), filepath.Join(dir, "b.json")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Symlink(file, link))
	one, err := socket.Path(file)
	require.NoError(t, err)
	t.Chdir(dir)
	for _, name := range []string{link, "a.json", "./b.json"} {
		same, err := socket.Path(name)
		require.NoError(t, err)
		require.Equal(t, one, same, name)
	}
	other, err := socket.Path("c.json")
	require.NoError(t, err)
	require.NotEqual(t, one, other)

	long := filepath.Join(dir, strings.Repeat("x", 100))
	require.NoError(t, os.Mkdir(long, 0o700))
	t.Setenv("XDG_RUNTIME_DIR", long)
	_, err = socket.Path(file)
	require.ErrorContains(t, err, "shorter path")

	t.Setenv("XDG_RUNTIME_DIR", filepath.Join(dir, "missing"))
	t.Setenv("XDG_CACHE_HOME", "/c")
	path, err := socket.Path(file)
	require.NoError(t, err)
	if runtime.GOOS == "linux" {
		require.Equal(t, "/c/mcpvisor/run", filepath.Dir(path))
	}
}
