//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package ownfile

import (
	"io/fs"
	"os"
	"syscall"
)

// OpenNoFollow opens a file. It does not follow a symbolic link, which another user may have put there, and
// does not block on a named pipe.
func OpenNoFollow(path string, flag int) (*os.File, error) {
	return os.OpenFile(path, flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
}

// OwnerOf returns the user ID of the owner of a file.
func OwnerOf(info fs.FileInfo) (uid int, known bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}

// namesOf returns how many hard links a file has.
func namesOf(info fs.FileInfo) uint64 {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 1
	}
	return uint64(stat.Nlink) //nolint:unconvert // its type depends on the system
}
