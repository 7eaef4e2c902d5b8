package socket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

// ErrNotRunning says that no process listens on a socket.
var ErrNotRunning = errors.New("no mcpvisor run of this configuration is running")

// Dial connects to the socket. It returns [ErrNotRunning] if no process listens on it, and
// another error if the directory belongs to another user than this one or the service of the
// machine: the process that listens there could read what is sent.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotRunning
	}
	at := path
	if dir := filepath.Dir(path); dir == serviceDirectory {
		if err := checkServiceDirectory(dir); err != nil {
			return nil, err
		}
	} else {
		own, err := openDirectory(path, false)
		if err != nil {
			return nil, err
		}
		defer own.Close()
		opened, err := own.Root().Open(".")
		if err != nil {
			return nil, err
		}
		defer func() { _ = opened.Close() }()
		// Where the system has this path, it is one of the open directory, whatever has its name by now.
		byDescriptor := fmt.Sprintf("/proc/self/fd/%d/%s", opened.Fd(), filepath.Base(path))
		if _, err := os.Lstat(byDescriptor); err == nil {
			at = byDescriptor
		}
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", at)
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case isRefused(err), errors.Is(err, fs.ErrNotExist):
		return nil, ErrNotRunning
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("the service of this configuration is running, but this user may not use its socket %s; join its group (as root: usermod -aG %s USER) and log in again, or use --fresh", path, groupOf(path))
	}
	return nil, err
}
