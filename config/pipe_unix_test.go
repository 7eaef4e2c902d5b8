//go:build unix

package config

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A pipe is refused and not opened, because that would wait for its writer.
func TestExpand_file_that_is_a_pipe(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	f := mustParse(t, []byte(`{"servers": {"s": {"command": "x", "env": {"KEY": "${file:pipe}"}}}}`), filepath.Join(dir, "mcp.json"))
	require.Contains(t, f.Problems[0].Message, "${file:pipe}: it is not a regular file; name one that holds the value alone")
}
