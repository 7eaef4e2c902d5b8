package socket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/mcpvisor/mcpvisor/internal/filelock"
)

// InUseError says that another process listens on the socket.
type InUseError struct {
	// PID is the process id of that process; 0 if it is not known.
	PID int
}

// Error implements error.
func (e *InUseError) Error() string {
	if e.PID == 0 {
		return "another mcpvisor run has this configuration"
	}
	return fmt.Sprintf("another mcpvisor run (pid %d) has this configuration", e.PID)
}

// Listener is a listening socket and the lock that reserves it. The lock is what decides
// who has the socket: the kernel releases it with the process, and a socket without a
// locked lock is left from a process that was killed.
type Listener struct {
	net.Listener
	path      string
	unlock    func()
	closeOnce sync.Once
}

// Listen makes the socket, with mode 0600, in a directory of mode 0700 that belongs to the
// user. If group is not empty its members may use it, too: the modes are then 0660 and 0711.
// It replaces a socket that a dead process has left. It returns an [*InUseError] if
// another process has it.
func Listen(path, group string) (*Listener, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := checkOwnDirectory(dir); err != nil {
		return nil, err
	}
	unlock, busy, err := filelock.TryLock(lockPath(path))
	if err != nil {
		return nil, err
	}
	if busy {
		return nil, &InUseError{PID: ownerOf(path)}
	}
	l, err := listenLocked(path, group)
	if err != nil {
		unlock()
		return nil, err
	}
	return &Listener{Listener: l, path: path, unlock: unlock}, nil
}

// listenLocked makes the socket while the lock is held.
func listenLocked(path, group string) (net.Listener, error) {
	if err := os.WriteFile(ownerPath(path), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	// Until the socket has its mode only that of the directory protects it.
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a directory
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	if err = os.Chmod(path, 0o600); err == nil {
		err = os.Chmod(dir, info.Mode().Perm())
	}
	if err == nil && group != "" {
		err = openTo(group, path)
	}
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// Close closes and removes the socket, and then releases the lock. Closing twice is
// harmless.
func (l *Listener) Close() (err error) {
	l.closeOnce.Do(func() {
		err = l.Listener.Close() // it removes the socket
		l.unlock()
	})
	return err
}

// KeyPath is a file beside the socket for a key that the next process at the same socket shares.
func (l *Listener) KeyPath() string { return strings.TrimSuffix(l.path, ".sock") + ".key" }

// lockPath is the file that is locked. It is never removed: otherwise two processes could
// hold locks on two files of the same name.
func lockPath(path string) string { return strings.TrimSuffix(path, ".sock") + ".lock" }

// ownerPath is the file with the process id of the process that has the lock.
func ownerPath(path string) string { return strings.TrimSuffix(path, ".sock") + ".pid" }

func ownerOf(path string) int {
	text, err := os.ReadFile(ownerPath(path))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}
