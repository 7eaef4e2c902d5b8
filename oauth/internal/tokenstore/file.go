// Package tokenstore keeps authorizations, as JSON, in files and in the keyring of the operating
// system. The type of the key is a parameter, because package oauth
// declares it and imports this package. All stores are safe for concurrent use.
package tokenstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/internal/filelock"
	"github.com/mcpvisor/mcpvisor/internal/ownfile"
)

// ErrUnreadable is the error of Load for an entry that no later attempt can read.
// Any other error of Load may be temporary.
var ErrUnreadable = errors.New("the stored tokens cannot be parsed")

// File is a store of files: it keeps each authorization in a file of its own that only its owner can
// read. A file is replaced as a whole by a rename, so a reader sees either the old
// or the new content. Two stores of one directory are equal (==).
type File[K comparable] struct{ dir string }

// NewFile returns the store of a directory. An empty dir means mcpvisor/tokens below the user's
// configuration directory.
func NewFile[K comparable](dir string) (File[K], error) {
	if dir == "" {
		base, err := os.UserConfigDir()
		if err != nil {
			return File[K]{}, fmt.Errorf("there is no directory for tokens: %w; configure a directory, or keep tokens in memory", err)
		}
		dir = filepath.Join(base, "mcpvisor", "tokens")
	}
	return File[K]{dir: dir}, nil
}

// entry is the content of a file. The key protects against a file that was renamed
// to the name of another server.
type entry[K comparable] struct {
	Key           K               `json:"key"`
	Authorization json.RawMessage `json:"authorization"`
}

// path returns the file of a key. The name is a digest, so that it does not show
// the server.
func (s File[K]) path(key K, extension string) string {
	text, _ := json.Marshal(key) // strings always marshal
	sum := sha256.Sum256(text)
	return filepath.Join(s.dir, hex.EncodeToString(sum[:12])+extension)
}

// Load implements oauth.TokenStore.
func (s File[K]) Load(_ context.Context, key K) ([]byte, error) {
	path := s.path(key, ".json")
	text, err := s.readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading tokens: %w", err)
	}
	var e entry[K]
	if json.Unmarshal(text, &e) != nil || e.Key != key {
		return nil, fmt.Errorf("reading %s: %w; delete the file and authorize again", path, ErrUnreadable)
	}
	return e.Authorization, nil
}

// readFile reads a regular file that this user wrote. If the directory belongs to
// another user, that user could put a file there that sends the client's secret to
// an address of their choice.
func (s File[K]) readFile(path string) ([]byte, error) {
	f, err := ownfile.OpenNoFollow(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// The checks use the open file, so it cannot be exchanged after them.
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case !s.isOwn(info):
		return nil, fmt.Errorf("%s belongs to another user; delete it, or run as that user", path)
	}
	return io.ReadAll(io.LimitReader(f, maxFileBytes))
}

// maxFileBytes is more than any authorization needs.
const maxFileBytes = 4 << 20

// isOwn reports whether this user or the superuser wrote a file. Some file systems
// give every file the same owner; there a new file shows who that is.
func (s File[K]) isOwn(info fs.FileInfo) bool {
	owner, known := ownfile.OwnerOf(info)
	if !known || owner == 0 || owner == os.Geteuid() {
		return true
	}
	f, err := os.CreateTemp(s.dir, tempPattern)
	if err != nil {
		return false
	}
	defer func() { _ = os.Remove(f.Name()) }()
	defer f.Close()
	own, err := f.Stat()
	if err != nil {
		return false
	}
	self, _ := ownfile.OwnerOf(own)
	return owner == self
}

// Save implements oauth.TokenStore.
func (s File[K]) Save(_ context.Context, key K, data []byte) error {
	if err := s.save(key, data); err != nil {
		return fmt.Errorf("storing tokens: %w; make %s writable, or choose another store", err, s.dir)
	}
	return nil
}

// save writes a temporary file, syncs it and renames it to its final name.
func (s File[K]) save(key K, data []byte) (err error) {
	if err := s.makeDir(); err != nil {
		return err
	}
	text, err := json.MarshalIndent(entry[K]{key, data}, "", "  ")
	if err != nil {
		return err
	}
	// The temporary file is in the same directory, so that the rename is atomic.
	s.removeStaleTemp()
	f, err := os.CreateTemp(s.dir, tempPattern) // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	// Sync before the rename: after a power failure the name must not point to an empty
	// file.
	_, err = f.Write(append(text, '\n'))
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err = os.Rename(f.Name(), s.path(key, ".json")); err != nil {
		return err
	}
	if d, openErr := os.Open(s.dir); openErr == nil {
		_ = d.Sync() // makes the rename durable, where the system can
		_ = d.Close()
	}
	return nil
}

const (
	// tempPattern is the pattern of the names of temporary files.
	tempPattern = ".new-*"
	// maxTempAge is the age from which a temporary file counts as left behind.
	maxTempAge = time.Hour
)

// removeStaleTemp removes temporary files of processes that were killed while they
// wrote.
func (s File[K]) removeStaleTemp() {
	left, _ := filepath.Glob(filepath.Join(s.dir, tempPattern))
	for _, path := range left {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > maxTempAge {
			_ = os.Remove(path)
		}
	}
}

// makeDir creates the directory and closes it to other users. It does not change
// the mode of a directory that belongs to another user, for example of a volume
// that was mounted for this process. The files are closed to others in any case.
func (s File[K]) makeDir() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(s.dir)
	if err != nil {
		return err
	}
	if owner, known := ownfile.OwnerOf(info); known && owner != os.Geteuid() {
		return nil
	}
	err = os.Chmod(s.dir, 0o700) //nolint:gosec // a directory needs the x bit
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// Delete implements oauth.TokenStore.
func (s File[K]) Delete(_ context.Context, key K) error {
	if err := os.Remove(s.path(key, ".json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("deleting tokens: %w", err)
	}
	return nil
}

// lockRetryInterval is the pause between two attempts to lock.
const lockRetryInterval = 20 * time.Millisecond

// Lock implements oauth.TokenLocker. The operating system releases the lock when
// its process ends.
func (s File[K]) Lock(ctx context.Context, key K) (unlock func(), err error) {
	if err := s.makeDir(); err != nil {
		return nil, err
	}
	path := s.path(key, ".lock")
	for {
		unlock, busy, err := filelock.TryLock(path)
		if errors.Is(err, errors.ErrUnsupported) { // several processes may renew one token at the same time
			return func() {}, nil
		}
		if err != nil { // for example a file system without locks
			return nil, fmt.Errorf("locking tokens: %w", err)
		}
		if !busy {
			return unlock, nil
		}
		if err := backoff.Sleep(ctx, lockRetryInterval); err != nil {
			return nil, fmt.Errorf("locking tokens: another process holds the lock: %w", err)
		}
	}
}
