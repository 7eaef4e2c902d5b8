package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// Programs returns the paths of this program that exist, at least one: the file that runs, the command that started it, and
// the program of its name in PATH. An upgrade may remove the first ones, which may be in a directory of one version.
func Programs() (paths []string, err error) {
	own, _ := os.Executable()
	for _, name := range []string{own, os.Args[0], "mcpvisor"} {
		if path, err := exec.LookPath(name); err == nil {
			if path, err = filepath.Abs(path); err == nil {
				paths = append(paths, path)
			}
		}
	}
	if len(paths) == 0 {
		err = errors.New("the program mcpvisor is neither where it was nor in PATH; restart the host")
	}
	return paths, err
}
