//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package tokenstore

import (
	"io/fs"
	"os"
	"syscall"
)

// openNoFollow opens a file of the store. It does not follow a symbolic link, which
// another user may have put there, and does not block on a named pipe.
func openNoFollow(path string, flag int) (*os.File, error) {
	return os.OpenFile(path, flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
}

// ownerOf returns the user ID of the owner of a file.
func ownerOf(info fs.FileInfo) (uid int, known bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}
