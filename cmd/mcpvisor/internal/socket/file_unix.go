//go:build unix

package socket

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// checkDirectory requires a directory that belongs to the user and that other users may
// not enter.
func checkDirectory(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is not a directory of this user; set XDG_RUNTIME_DIR to one", dir)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is open to other users (mode %#o); run: chmod 700 %s", dir, info.Mode().Perm(), dir)
	}
	return nil
}

// isRefused reports whether no process listens on a socket that exists.
func isRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
