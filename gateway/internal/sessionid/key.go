package sessionid

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/mcpvisor/mcpvisor/internal/ownfile"
)

// NewKey returns a random key.
func NewKey() []byte {
	key := make([]byte, KeyBytes)
	_, _ = rand.Read(key) // it does not fail
	return key
}

// LoadKey reads a key from a file. If there is no file, it makes one that only the user may read.
// Processes that do so concurrently get the same key.
func LoadKey(path string) ([]byte, error) {
	key, err := readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	made, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // its mode is 0600
	if err != nil {
		return nil, fmt.Errorf("make a session key: %w", err)
	}
	defer os.Remove(made.Name()) //nolint:errcheck // the key file is a link to it, or it is not needed
	_, err = made.Write(NewKey())
	if err == nil {
		err = made.Sync()
	}
	if closed := made.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Link(made.Name(), path) // it fails if another process was first
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make the session key %s: %w", path, err)
	}
	return readKey(path)
}

func readKey(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the session key: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("read the session key: %w", err)
	}
	if owner, known := ownfile.OwnerOf(info); !info.Mode().IsRegular() || known && owner != os.Geteuid() && owner != 0 {
		return nil, fmt.Errorf("the session key %s is not a file of this user; delete it, and a new one is made", path)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("the session key %s may be read or changed by other users (mode %#o); make a new one, or chmod 600", path, info.Mode().Perm())
	}
	key, err := io.ReadAll(io.LimitReader(file, KeyBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the session key: %w", err)
	}
	if len(key) != KeyBytes {
		return nil, fmt.Errorf("the session key %s does not have %d bytes; delete the file, and a new one is made", path, KeyBytes)
	}
	return key, nil
}
