package configfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// names lists a directory, so that a test sees what a write leaves behind.
func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// The file is replaced by another one, so a reader never sees half of it. Mode and symbolic
// links stay.
func TestWrite(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	target, link := filepath.Join(elsewhere, "real.json"), filepath.Join(dir, "x.json")
	require.NoError(t, os.WriteFile(target, []byte(`{"mcpServers": {}}`), 0o640))
	if err := os.Symlink(target, link); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	old, err := os.Open(target) // a reader that has the file open
	require.NoError(t, err)
	defer func() { _ = old.Close() }()
	before, err := os.Stat(target)
	require.NoError(t, err)

	f, err := Open(link)
	require.NoError(t, err)
	require.NoError(t, f.Set("a", server("x")))
	require.NoError(t, f.Write())
	written, err := os.ReadFile(target)
	require.NoError(t, err)
	require.Equal(t, string(f.Bytes()), string(written))
	require.NoError(t, f.Write(), "nothing is left to write, which is no error")

	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink, "the link stays")
	after, err := os.Stat(target)
	require.NoError(t, err)
	require.Equal(t, before.Mode(), after.Mode())
	require.False(t, os.SameFile(before, after), "the file is another one")
	text := make([]byte, 100)
	n, err := old.Read(text)
	require.NoError(t, err)
	require.Equal(t, `{"mcpServers": {}}`, string(text[:n]), "who has it open sees the old text as a whole")
	require.Equal(t, []string{"real.json"}, names(t, elsewhere))
	require.Equal(t, []string{"x.json"}, names(t, dir))
}

// A change of another program is not overwritten.
func TestWrite_refused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.json")
	f, err := Open(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte(`{"mcpServers": {"theirs": {}}}`), 0o600))
	require.ErrorIs(t, f.Write(), ErrChanged)

	f, err = Open(path)
	require.NoError(t, err)
	require.NoError(t, f.Set("a", server("x")))
	require.NoError(t, os.Remove(path))
	require.ErrorIs(t, f.Write(), ErrChanged)
	require.Empty(t, names(t, dir), "nothing is left behind")
}

func TestWrite_read_only(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.json")
	require.NoError(t, os.WriteFile(path, []byte(`{}`), 0o400))
	f, err := Open(path)
	require.NoError(t, err)
	require.NoError(t, f.Set("a", server("x")))
	require.ErrorContains(t, f.Write(), "it is read-only; make it writable first")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, `{}`, string(text))
}

func TestWrite_new_file(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "dir", "mcp.json")
	f, err := Open(path)
	require.NoError(t, err)
	require.NoError(t, f.Write())
	info, err := os.Stat(path)
	require.NoError(t, err)
	if runtime.GOOS != "windows" {
		require.Equal(t, newMode, info.Mode().Perm())
	}
	require.ErrorIs(t, Create(path, []byte("{}")), fs.ErrExist)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, Starter(), string(text))

	dangling := filepath.Join(t.TempDir(), "link.json")
	if err := os.Symlink("missing.json", dangling); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	f, err = Open(dangling)
	require.NoError(t, err)
	require.NoError(t, f.Write())
	require.FileExists(t, filepath.Join(filepath.Dir(dangling), "missing.json"))
}
