package cli

import (
	"os"
	"os/exec"
	"path/filepath"
)

// Programs returns the paths of this program: the file that runs, then the command that started it, and the program of its
// name in PATH. An upgrade may remove the first ones; os.Executable follows links to a directory of one version.
func Programs() (paths []string) {
	if path, err := os.Executable(); err == nil {
		paths = append(paths, path)
	}
	for _, name := range []string{os.Args[0], "mcpvisor"} {
		if path, err := exec.LookPath(name); err == nil {
			if path, err = filepath.Abs(path); err == nil {
				paths = append(paths, path)
			}
		}
	}
	return paths
}
