package oauth

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
)

// fileStore keeps each authorization in a file of its own that only its owner can
// read. A file is replaced as a whole by a rename, so a reader sees either the old
// or the new content. Two stores of one directory are equal (==).
type fileStore struct{ dir string }

// NewFileStore returns a store of files in a directory that only their owner can
// read; the directory should hold nothing else. It is safe for several processes, and durable.
// An empty dir means mcpvisor/tokens below the user's configuration directory, which is also
// the default of Config.Store; if the host has no such directory, that is an error. The directory
// itself is first used, and made, by Load and Save: their errors say why it cannot be used,
// and so does the error about a file that another user has put there.
func NewFileStore(dir string) (TokenStore, error) {
	if dir == "" {
		base, err := os.UserConfigDir()
		if err != nil {
			return nil, fmt.Errorf("there is no directory for tokens: %w; configure a directory, or keep tokens in memory", err)
		}
		dir = filepath.Join(base, "mcpvisor", "tokens")
	}
	return fileStore{dir: dir}, nil
}

// entry is the content of a file. The key protects against a file that was renamed
// to the name of another server.
type entry struct {
	Key           TokenKey       `json:"key"`
	Authorization *Authorization `json:"authorization"`
}

// path returns the file of a key. The name is a digest, so that it does not show
// the server.
func (s fileStore) path(key TokenKey, extension string) string {
	text, _ := json.Marshal(key) // strings always marshal
	sum := sha256.Sum256(text)
	return filepath.Join(s.dir, hex.EncodeToString(sum[:12])+extension)
}

// Load implements TokenStore.
func (s fileStore) Load(_ context.Context, key TokenKey) (*Authorization, error) {
	path := s.path(key, ".json")
	text, err := s.readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // the interface requires it
	}
	if err != nil {
		return nil, fmt.Errorf("reading tokens: %w", err)
	}
	var e entry
	if json.Unmarshal(text, &e) != nil || e.Key != key {
		return nil, fmt.Errorf("reading %s: %w; delete the file and authorize again", path, errUnreadable)
	}
	return e.Authorization, nil
}

// readFile reads a regular file that this user wrote. If the directory belongs to
// another user, that user could put a file there that sends the client's secret to
// an address of their choice.
func (s fileStore) readFile(path string) ([]byte, error) {
	f, err := openNoFollow(path, os.O_RDONLY)
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
func (s fileStore) isOwn(info fs.FileInfo) bool {
	owner, known := ownerOf(info)
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
	self, _ := ownerOf(own)
	return owner == self
}

// Save implements TokenStore.
func (s fileStore) Save(_ context.Context, key TokenKey, a *Authorization) error {
	if err := s.save(key, a); err != nil {
		return fmt.Errorf("storing tokens: %w; make %s writable, or choose another store", err, s.dir)
	}
	return nil
}

// save writes a temporary file, syncs it and renames it to its final name.
func (s fileStore) save(key TokenKey, a *Authorization) (err error) {
	if err := s.makeDir(); err != nil {
		return err
	}
	text, err := json.MarshalIndent(entry{key, a}, "", "  ")
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
func (s fileStore) removeStaleTemp() {
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
func (s fileStore) makeDir() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(s.dir)
	if err != nil {
		return err
	}
	if owner, known := ownerOf(info); known && owner != os.Geteuid() {
		return nil
	}
	err = os.Chmod(s.dir, 0o700) //nolint:gosec // a directory needs the x bit
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// Delete implements TokenStore.
func (s fileStore) Delete(_ context.Context, key TokenKey) error {
	if err := os.Remove(s.path(key, ".json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("deleting tokens: %w", err)
	}
	return nil
}

// lockRetryInterval is the pause between two attempts to lock.
const lockRetryInterval = 20 * time.Millisecond

// Lock implements TokenLocker. The operating system releases the lock when
// its process ends.
func (s fileStore) Lock(ctx context.Context, key TokenKey) (unlock func(), err error) {
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
