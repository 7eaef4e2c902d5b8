//go:build unix

package journal

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A file is the same journal under each of its names: no two processes have it.
func TestOpen_twice_by_links(t *testing.T) {
	path := tempFile(t)
	openTest(t, path, Options{})
	relative, absolute, hard := path+".relative", path+".absolute", path+".hard"
	require.NoError(t, os.Symlink(filepath.Base(path), relative))
	require.NoError(t, os.Symlink(relative, absolute))
	require.NoError(t, os.Link(path, hard))
	for _, link := range []string{relative, absolute, hard} {
		_, err := Open(link, Options{})
		require.ErrorIs(t, err, ErrInUse, link)
	}
}

// A journal is made where a link leads, and not in the place of the link: that may be a disk that
// outlives the host.
func TestOpen_makes_the_file_that_a_link_names(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "disk", "calls.db"), filepath.Join(dir, "host", "calls.db")
	require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
	require.NoError(t, os.Mkdir(filepath.Dir(link), 0o700))
	require.NoError(t, os.Symlink(filepath.Join("..", "disk", "calls.db"), link))
	openTest(t, link, Options{})
	require.FileExists(t, path)
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink)
}

// An empty file with two names does not become two journals.
func TestOpen_empty_file_with_two_names(t *testing.T) {
	path := tempFile(t)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Link(path, path+".hard"))
	for _, name := range []string{path, path + ".hard"} {
		_, err := Open(name, Options{})
		require.ErrorIs(t, err, ErrDamaged)
	}
}

// What has no size and is no file, such as a device, is never replaced.
func TestOpen_replaces_only_files(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s") // short: the names of sockets are
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Skip("no sockets here: ", err)
	}
	defer func() { _ = l.Close() }()
	_, err = Open(path, Options{})
	require.Error(t, err)
	info, err := os.Lstat(path)
	require.NoError(t, err)
	require.Equal(t, os.ModeSocket, info.Mode().Type())
}

// Links that lead nowhere are an error, and so is no path at all, which leaves no file behind.
func TestOpen_path_without_file(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Symlink("loop", "loop"))
	_, err := Open("loop", Options{})
	require.ErrorContains(t, err, "more than 40 symbolic links")
	_, err = Open("", Options{})
	require.EqualError(t, err, "the journal has no path; name a file")
	left, err := os.ReadDir(".")
	require.NoError(t, err)
	require.Len(t, left, 1)
}
