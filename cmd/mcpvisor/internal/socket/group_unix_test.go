//go:build unix

package socket_test

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/socket"
)

// The members of a group may use a socket that is made for them. test/packaging tries it with
// other users.
func TestListen_for_a_group(t *testing.T) {
	group, err := user.LookupGroupId(strconv.Itoa(os.Getgid()))
	if err != nil {
		t.Skip("the group of this user has no name")
	}
	path := newPath(t)
	for range 2 { // a later run finds the directory of the one before
		l, err := socket.Listen(path, group.Name)
		require.NoError(t, err)
		for file, mode := range map[string]os.FileMode{path: 0o660, filepath.Dir(path): 0o711} {
			info, err := os.Stat(file)
			require.NoError(t, err)
			require.Equal(t, mode, info.Mode().Perm(), file)
		}
		conn, err := socket.Dial(t.Context(), path)
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		require.NoError(t, l.Close())
	}
	alone, err := socket.Listen(path, "")
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "for the user alone")
	require.NoError(t, alone.Close())

	_, err = socket.Listen(path, "no-such-group")
	require.ErrorContains(t, err, "groupadd --system no-such-group")
	require.NoFileExists(t, path)
	l, err := socket.Listen(path, "")
	require.NoError(t, err, "the lock is free")
	require.NoError(t, l.Close())
}
