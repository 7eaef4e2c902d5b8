//go:build unix

package journal

import (
	"os"
	"syscall"
)

// hasOneName reports whether no hard link gives the file another name.
func hasOneName(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Nlink == 1
}
