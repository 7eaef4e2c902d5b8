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

	"github.com/mcpvisor/mcpvisor"
)

// fileStore keeps each authorization in a file of its own, readable for its
// owner only. Files are replaced as a whole, so that whoever reads sees one or
// the other.
type fileStore struct{ dir string }

// NewFileStore returns a store in a directory, which should hold nothing else:
// it is created, and closed to everybody but its owner. An empty dir means
// mcpvisor/tokens below the user's configuration directory.
func NewFileStore(dir string) (mcpvisor.TokenStore, error) {
	if dir == "" {
		base, err := os.UserConfigDir()
		if err != nil {
			return nil, fmt.Errorf("there is no place for tokens: %w; name a directory, or keep them in memory", err)
		}
		dir = filepath.Join(base, "mcpvisor", "tokens")
	}
	return &fileStore{dir: dir}, nil
}

// kept is what a file holds.
type kept struct {
	Key           mcpvisor.TokenKey       `json:"key"`
	Authorization *mcpvisor.Authorization `json:"authorization"`
}

// path names the file of a key; the name tells nothing.
func (s *fileStore) path(key mcpvisor.TokenKey, extension string) string {
	text, _ := json.Marshal(key) // strings always marshal
	sum := sha256.Sum256(text)
	return filepath.Join(s.dir, hex.EncodeToString(sum[:12])+extension)
}

// Load implements mcpvisor.TokenStore.
func (s *fileStore) Load(_ context.Context, key mcpvisor.TokenKey) (*mcpvisor.Authorization, error) {
	path := s.path(key, ".json")
	text, err := s.read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // as the interface wants it
	}
	if err != nil {
		return nil, fmt.Errorf("reading tokens: %w", err)
	}
	var k kept
	if json.Unmarshal(text, &k) != nil || k.Key != key {
		return nil, fmt.Errorf("reading %s: %w; delete the file and authorize again", path, errSpoiled)
	}
	return k.Authorization, nil
}

// read reads a file that this user wrote. The directory may belong to another
// user, who could put a file there that sends the client's secret elsewhere.
func (s *fileStore) read(path string) ([]byte, error) {
	f, err := openOwn(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
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

// maxFileBytes is more than any authorization has.
const maxFileBytes = 4 << 20

// isOwn reports whether this user wrote a file, or the superuser. On file systems
// that give every file the same owner, a new file shows who that is.
func (s *fileStore) isOwn(info fs.FileInfo) bool {
	owner, known := ownerOf(info)
	if !known || owner == 0 || owner == os.Geteuid() {
		return true
	}
	f, err := os.CreateTemp(s.dir, newFile)
	if err != nil {
		return false
	}
	defer func() { _ = os.Remove(f.Name()) }()
	defer f.Close()
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	self, _ := ownerOf(mine)
	return owner == self
}

// Save implements mcpvisor.TokenStore.
func (s *fileStore) Save(_ context.Context, key mcpvisor.TokenKey, a *mcpvisor.Authorization) error {
	if err := s.save(key, a); err != nil {
		return fmt.Errorf("storing tokens: %w; make %s writable, or choose another store", err, s.dir)
	}
	return nil
}

func (s *fileStore) save(key mcpvisor.TokenKey, a *mcpvisor.Authorization) (err error) {
	if err := s.makeDir(); err != nil {
		return err
	}
	text, err := json.MarshalIndent(kept{key, a}, "", "  ")
	if err != nil {
		return err
	}
	s.sweep()
	f, err := os.CreateTemp(s.dir, newFile) // for its owner only
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(append(text, '\n'))
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err = os.Rename(f.Name(), s.path(key, ".json")); err != nil {
		return err
	}
	if d, openErr := os.Open(s.dir); openErr == nil {
		_ = d.Sync() // the rename itself; not every system can
		_ = d.Close()
	}
	return nil
}

const (
	// newFile are the names of files that are being written.
	newFile = ".new-*"
	// newFileAge is from when on nobody writes them any more.
	newFileAge = time.Hour
)

// sweep removes what a process left behind that was killed while it wrote.
func (s *fileStore) sweep() {
	left, _ := filepath.Glob(filepath.Join(s.dir, newFile))
	for _, path := range left {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > newFileAge {
			_ = os.Remove(path)
		}
	}
}

// makeDir closes the directory to others, if it is ours: a volume that was
// mounted for this process may belong to another user, and its mode is not ours
// to change. The files are closed in any case.
func (s *fileStore) makeDir() error {
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
	err = os.Chmod(s.dir, 0o700) //nolint:gosec // a directory has to be entered
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// Delete implements mcpvisor.TokenStore.
func (s *fileStore) Delete(_ context.Context, key mcpvisor.TokenKey) error {
	if err := os.Remove(s.path(key, ".json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("deleting tokens: %w", err)
	}
	return nil
}

// lockPause is the pause between tries to lock.
const lockPause = 20 * time.Millisecond

// Lock implements mcpvisor.TokenLocker. The operating system frees the lock of
// a process that dies.
func (s *fileStore) Lock(ctx context.Context, key mcpvisor.TokenKey) (unlock func(), err error) {
	if err := s.makeDir(); err != nil {
		return nil, err
	}
	path := s.path(key, ".lock")
	for {
		free, held, err := lockFile(path)
		if err != nil {
			return nil, fmt.Errorf("locking tokens: %w", err)
		}
		if !held {
			return free, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("locking tokens: another process renews them: %w", context.Cause(ctx))
		case <-time.After(lockPause):
		}
	}
}
