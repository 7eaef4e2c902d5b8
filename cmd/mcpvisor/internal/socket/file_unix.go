//go:build unix

package socket

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/mcpvisor/mcpvisor/internal/ownfile"
)

// serviceDirectory has the sockets of the service of the machine, whose unit sets
// XDG_RUNTIME_DIR to its parent.
const serviceDirectory = "/run/mcpvisor"

// runtimeDirectories has a directory for each user who is logged in: that which systemd names in
// XDG_RUNTIME_DIR. A variable for tests.
var runtimeDirectories = "/run/user"

// userRuntimeDirectory is the directory of this user there; empty without one.
func userRuntimeDirectory() string {
	dir := filepath.Join(runtimeDirectories, strconv.Itoa(os.Geteuid()))
	own, err := ownfile.OpenDir(dir, false)
	if err != nil {
		return ""
	}
	own.Close()
	return dir
}

// checkServiceDirectory requires a directory that only root can have made, and in which only
// its owner, the user of the service, may make a file.
func checkServiceDirectory(dir string) error {
	parent, err := os.Lstat(filepath.Dir(dir))
	if err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := parent.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid != 0 || parent.Mode().Perm()&0o022 != 0 || !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s could have been made by another user than that of the service; use --fresh", dir)
	}
	return nil
}

// openTo lets the members of a group use the socket. Everybody may enter its directory, to find
// out whether it exists.
func openTo(group string, dir *os.Root, name string) error {
	g, err := user.LookupGroup(group)
	if err != nil {
		return fmt.Errorf("%w; make it with: groupadd --system %s", err, group)
	}
	gid, err := strconv.Atoi(g.Gid)
	if err != nil {
		return err
	}
	if err := dir.Lchown(name, -1, gid); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("%w; this user is not in the group %s", err, group)
		}
		return err
	}
	if err := dir.Chmod(name, 0o660); err != nil {
		return err
	}
	return dir.Chmod(".", 0o711)
}

// groupOf returns the name of the group of a file.
func groupOf(path string) string {
	info, err := os.Lstat(path)
	if err != nil {
		return "GROUP"
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		gid := strconv.Itoa(int(owner.Gid))
		if g, err := user.LookupGroupId(gid); err == nil {
			return g.Name
		}
		return gid
	}
	return "GROUP"
}

// isRefused reports whether no process listens on a socket that exists.
func isRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
