// Package socket is the unix socket of a running `mcpvisor run`: where it is, who may open
// it, and that there is one for each configuration file.
package socket

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// maxPathLength is the longest path of a socket that all systems accept, in bytes. Darwin
// has the shortest limit, 104 with the zero byte at the end.
const maxPathLength = 103

// Path returns the path of the socket of a configuration file, which need not exist. Two
// paths of one file, such as a relative one and one through a symbolic link, have the same
// socket.
//
// The directory is $XDG_RUNTIME_DIR/mcpvisor, or mcpvisor/run in the user's cache
// directory if that variable names no directory. Hosts start their servers with few variables: without this
// one, the directory of systemd, /run/user/UID, is used if the user has it.
func Path(config string) (string, error) {
	dir, err := directory()
	if err != nil {
		return "", err
	}
	id, err := ID(config)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, id+".sock")
	if len(path) > maxPathLength {
		return "", fmt.Errorf("the path of the socket, %s, is longer than %d bytes; set XDG_RUNTIME_DIR to a directory with a shorter path", path, maxPathLength)
	}
	return path, nil
}

// ID identifies a configuration file in the names of files. All paths of one file have the same.
func ID(config string) (string, error) {
	whole, err := filepath.Abs(config)
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(config, "fleet:") { // a node of a fleet, and no file
		whole = config
	}
	if target, err := filepath.EvalSymlinks(whole); err == nil {
		whole = target
	}
	sum := sha256.Sum256([]byte(whole))
	return hex.EncodeToString(sum[:8]), nil
}

// Find returns the path of the socket of a running process: that of the user's own run, or of
// the service of the machine. It returns [ErrNotRunning] if neither exists.
func Find(config string) (string, error) {
	own, err := Path(config)
	if err != nil {
		return "", ErrNotRunning // run could not have made a socket, either
	}
	paths := []string{own}
	if serviceDirectory != "" {
		paths = append(paths, filepath.Join(serviceDirectory, filepath.Base(own)))
	}
	for _, path := range paths {
		if _, err := os.Lstat(path); err == nil {
			return path, nil
		}
	}
	return "", ErrNotRunning
}

func directory() (string, error) {
	runtimeDir := os.Getenv("XDG_RUNTIME_DIR")
	if runtimeDir == "" {
		runtimeDir = userRuntimeDirectory()
	}
	if info, err := os.Stat(runtimeDir); err == nil && info.IsDir() && filepath.IsAbs(runtimeDir) { //nolint:gosec // the user sets it
		return filepath.Join(runtimeDir, "mcpvisor"), nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", errors.New("there is no directory for the socket; set XDG_RUNTIME_DIR, or HOME")
	}
	return filepath.Join(cache, "mcpvisor", "run"), nil
}
