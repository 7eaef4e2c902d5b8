//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package tokenstore

import (
	"io/fs"
	"os"
)

// openNoFollow opens a file of the store. This system has no flag for the checks
// that it makes on Unix.
func openNoFollow(path string, flag int) (*os.File, error) { return os.OpenFile(path, flag, 0o600) }

// ownerOf returns known == false: this system does not identify owners by number.
func ownerOf(fs.FileInfo) (uid int, known bool) { return 0, false }
