package socket

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/mcpvisor/mcpvisor/internal/filelock"
	"github.com/mcpvisor/mcpvisor/internal/ownfile"
)

// InUseError says that another process listens on the socket.
type InUseError struct {
	// PID is the process id of that process; 0 if it is not known.
	PID int
}

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
	dir       *ownfile.Dir
	name      string // of the socket in dir
	unlock    func()
	closeOnce sync.Once
}

// Listen makes the socket, with mode 0600, in a directory of mode 0700 that belongs to the
// user. If group is not empty its members may use it, too: the modes are then 0660 and 0711.
// It replaces a socket that a dead process has left. It returns an [*InUseError] if
// another process has it.
func Listen(path, group string) (*Listener, error) {
	dir, err := openDirectory(path, true)
	if err != nil {
		return nil, err
	}
	name := filepath.Base(path)
	unlock, busy, err := lockIn(dir, path, ".lock")
	if err != nil || busy {
		defer dir.Close()
		if err == nil {
			err = &InUseError{PID: ownerOf(dir, name)}
		}
		return nil, err
	}
	l, err := listenLocked(path, group, dir)
	if err != nil {
		unlock()
		dir.Close()
		return nil, err
	}
	return &Listener{Listener: l, dir: dir, name: name, unlock: unlock}, nil
}

// LockStart takes the lock that a process holds while it starts a run of a configuration, or takes over from one, so that
// exactly one does. It does not wait: unlock is nil if another process has it.
func LockStart(config string) (unlock func(), err error) {
	path, err := Path(config)
	if err != nil {
		return nil, err
	}
	dir, err := openDirectory(path, true)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	unlock, _, err = lockIn(dir, path, ".start")
	return unlock, err
}

// lockIn locks the file that has the name of the socket with another extension. It is never removed: otherwise two
// processes could hold locks on two files of the same name.
func lockIn(dir *ownfile.Dir, path, extension string) (unlock func(), busy bool, err error) {
	path = withExtension(path, extension)
	return filelock.TryLockOpened(path, func(flag int) (*os.File, error) { return dir.OpenFile(filepath.Base(path), flag) })
}

func openDirectory(path string, create bool) (*ownfile.Dir, error) {
	dir, err := ownfile.OpenDir(filepath.Dir(path), create)
	if err != nil {
		return nil, fmt.Errorf("%w; or set XDG_RUNTIME_DIR to another directory", err)
	}
	return dir, nil
}

// OpenBeside opens a file that has the name of the socket with another extension. It follows no link and
// opens no file of another user.
func OpenBeside(path, extension string, flag int) (*os.File, error) {
	dir, err := openDirectory(path, true)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.OpenFile(withExtension(filepath.Base(path), extension), flag)
}

func listenLocked(path, group string, own *ownfile.Dir) (net.Listener, error) {
	dir, name := own.Root(), filepath.Base(path)
	file, err := own.OpenFile(withExtension(name, ".pid"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC)
	if err != nil {
		return nil, err
	}
	_, err = file.WriteString(strconv.Itoa(os.Getpid()))
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	// Until the socket has its mode only that of the directory protects it.
	info, err := dir.Stat(".")
	if err != nil {
		return nil, err
	}
	if err := dir.Chmod(".", 0o700); err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) //nolint:forcetypeassert // Close removes it where it is
	// It fails if the path has led to another directory meanwhile.
	if err = dir.Chmod(name, 0o600); err == nil {
		err = dir.Chmod(".", info.Mode().Perm())
	}
	if err == nil && group != "" {
		err = openTo(group, dir, name)
	}
	if err != nil {
		_ = dir.Remove(name)
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// Close closes and removes the socket, and then releases the lock. Closing twice is
// harmless.
func (l *Listener) Close() (err error) {
	l.closeOnce.Do(func() {
		_ = l.dir.Root().Remove(l.name)
		err = l.Listener.Close()
		l.dir.Close()
		l.unlock()
	})
	return err
}

// Key returns the key that the next process at the same socket shares. The first one makes it.
func (l *Listener) Key() ([]byte, error) {
	file, err := l.dir.OpenFile(withExtension(l.name, ".key"), os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	key := make([]byte, 32)
	if n, err := io.ReadFull(file, key); err == nil {
		return key, nil
	} else if n > 0 { // a process was killed while it wrote the key, which it has not used
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
	}
	_, _ = rand.Read(key) // it does not fail
	_, err = file.Write(key)
	return key, err
}

func withExtension(path, extension string) string {
	return strings.TrimSuffix(path, ".sock") + extension
}

// ownerOf returns the process that has the lock of a socket.
func ownerOf(dir *ownfile.Dir, name string) int {
	file, err := dir.OpenFile(withExtension(name, ".pid"), os.O_RDONLY)
	if err != nil {
		return 0
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}
