//go:build unix

package socket

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// A host that starts its servers without XDG_RUNTIME_DIR, as the SDKs do, finds the socket of the user's run.
func TestPath_without_the_variable(t *testing.T) {
	all := t.TempDir()
	previous := runtimeDirectories
	runtimeDirectories = all
	t.Cleanup(func() { runtimeDirectories = previous })
	own := filepath.Join(all, strconv.Itoa(os.Geteuid()))
	require.NoError(t, os.Mkdir(own, 0o700))

	t.Setenv("XDG_RUNTIME_DIR", own)
	with, err := directory()
	require.NoError(t, err)
	t.Setenv("XDG_RUNTIME_DIR", "")
	without, err := directory()
	require.NoError(t, err)
	require.Equal(t, with, without)
	require.Equal(t, filepath.Join(own, "mcpvisor"), without)

	require.NoError(t, os.Chmod(own, 0o777)) // anybody could have made it
	without, err = directory()
	require.NoError(t, err)
	require.NotEqual(t, with, without)
}
