package socket

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

// ErrNotRunning says that no process listens on a socket.
var ErrNotRunning = errors.New("no mcpvisor run of this configuration is running")

// Dial connects to the socket. It returns [ErrNotRunning] if no process listens on it, and
// another error if the directory does not belong to the user: the process that listens
// there could read what is sent.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotRunning
	}
	if err := checkDirectory(filepath.Dir(path)); err != nil {
		return nil, err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case isRefused(err), errors.Is(err, fs.ErrNotExist):
		return nil, ErrNotRunning
	}
	return nil, err
}
