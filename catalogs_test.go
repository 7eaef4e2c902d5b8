package mcpvisor

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/regularfile"
	"github.com/mcpvisor/mcpvisor/internal/retention"
)

// What a killed process has left of a server is removed; what another one writes now, and other files, are not.
func TestCatalogDir_removes_temporary_files(t *testing.T) {
	dir := CatalogDir(filepath.Join(t.TempDir(), "[a]")) // no pattern
	require.NoError(t, dir.Save("a", []byte("1")))
	write := func(name string, age time.Duration) string {
		path := filepath.Join(string(dir), name)
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(-age)))
		return path
	}
	for _, use := range []func() error{
		func() error { return dir.Save("a", []byte("2")) },
		func() error { _, err := dir.Load("a"); return err },
	} {
		left, now, other := write(".a.json.1", 2*abandoned), write(".a.json.2", 0), write(".a", 2*abandoned)
		require.NoError(t, use())
		require.NoFileExists(t, left)
		require.FileExists(t, now)
		require.FileExists(t, other)
	}
	data, err := dir.Load("a")
	require.NoError(t, err)
	require.Equal(t, "2", string(data))
	files, err := os.ReadDir(string(dir))
	require.NoError(t, err)
	require.Len(t, files, 3, "that of another process, the other one, and what is kept")
}

// A file that is longer than what is kept is not read.
func TestCatalogDir_long_file(t *testing.T) {
	dir := CatalogDir(t.TempDir())
	require.NoError(t, os.Truncate(create(t, dir.path("a")), retention.ListsBytes+1))
	_, err := dir.Load("a")
	require.ErrorIs(t, err, regularfile.ErrLong)
}

func create(t *testing.T, path string) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	return path
}
