package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/mcpvisor/mcpvisor/internal/filelock"
)

// Errors of [Open], for errors.Is.
var (
	// ErrInUse: another process, or this one, has the journal open.
	ErrInUse = errors.New("the journal is in use")
	// ErrDamaged: the file is no journal, has a format of before the first release, or was changed,
	// cut, replaced or removed by something else.
	ErrDamaged = errors.New("the journal is damaged")
	// ErrNewer: a later version of this package wrote the journal.
	ErrNewer = errors.New("the journal was written by a later version")
)

// The buckets of the database.
var (
	metaBucket  = []byte("meta")  // formatKey → format
	callsBucket = []byte("calls") // encodeKey → record
)

// formatKey is the key of the format of the file in metaBucket.
var formatKey = []byte("format")

// clockKey is the key of a stamp in metaBucket: what the clock said after it was set back.
var clockKey = []byte("clock")

// format is the format that this version writes, and the latest one that it reads.
const format = "2"

// lockTimeout is how long Open waits for another process that has the file open.
const lockTimeout = time.Second

// maxLinks is how many symbolic links in a row lead to a file.
const maxLinks = 40

// resolve returns the path of the file to which symbolic links lead, which need not exist: the
// lock belongs to that file, and it is made where the last link leads.
func resolve(path string) (string, error) {
	if path == "" {
		return "", errors.New("the journal has no path; name a file")
	}
	for range maxLinks {
		target, err := os.Readlink(path)
		if err != nil { // it is no link, or does not exist
			return path, nil //nolint:nilerr // that file is opened, or made
		}
		if !filepath.IsAbs(target) {
			dir, err := filepath.EvalSymlinks(filepath.Dir(path))
			if err != nil {
				return "", fmt.Errorf("open the journal %s: %w", path, err)
			}
			target = filepath.Join(dir, target)
		}
		path = target
	}
	return "", fmt.Errorf("open the journal: more than %d symbolic links lead to %s", maxLinks, path)
}

// errInUse is ErrInUse for a file.
func errInUse(path string) error {
	return fmt.Errorf("%w: %s is open in another process, or twice in this one; end the other one, or give each its own file", ErrInUse, path)
}

// lock waits until no other process has the journal. The lock is a file of its own, which
// stays: the database locks itself only after its pages were verified.
func lock(path string) (unlock func(), err error) {
	for giveUp := time.Now().Add(lockTimeout); ; time.Sleep(lockTimeout / 20) {
		unlock, busy, err := filelock.TryLock(path + ".lock")
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			return func() {}, nil
		case err != nil:
			return nil, fmt.Errorf("lock the journal %s: %w", path, err)
		case !busy:
			return unlock, nil
		case time.Now().After(giveUp):
			return nil, errInUse(path)
		}
	}
}

// open opens the database, which is locked, and makes a missing one.
func open(path string) (*bolt.DB, error) {
	if info, err := os.Stat(path); errors.Is(err, os.ErrNotExist) || err == nil && isEmpty(info) { //nolint:gosec // the host names its file
		if err := create(path); err != nil {
			return nil, fmt.Errorf("make the journal %s: %w", path, err)
		}
	}
	db, err := openFile(path)
	switch {
	case errors.Is(err, bolterrors.ErrTimeout): // under another name, which is a hard link
		return nil, errInUse(path)
	case errors.Is(err, ErrDamaged):
		return nil, fmt.Errorf("%w; move the file %s away, and an empty one is made: calls whose keys were in it may then be executed again", err, path)
	case err != nil:
		return nil, fmt.Errorf("open the journal %s: %w", path, err)
	}
	return db, nil
}

// isEmpty reports whether a file holds nothing, as one of mktemp, so that a journal may take its
// place. It may not if the file has another name: under that one, another process would make
// another journal.
func isEmpty(info os.FileInfo) bool {
	return info.Mode().IsRegular() && info.Size() == 0 && hasOneName(info)
}

// create makes an empty database. It appears under its name when it is whole, in the place of an
// empty file.
func create(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	_ = f.Close()
	defer func() { _ = os.Remove(f.Name()) }() //nolint:gosec // the host names its file
	db, err := bolt.Open(f.Name(), 0o600, nil)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		meta, err := tx.CreateBucket(metaBucket)
		if err != nil {
			return err
		}
		if _, err := tx.CreateBucket(callsBucket); err != nil {
			return err
		}
		return meta.Put(formatKey, []byte(format))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil { //nolint:gosec // the host names its file
		return err
	}
	syncDirectory(path)
	return nil
}

// syncDirectory makes the name of a file durable. Not every system can.
func syncDirectory(path string) {
	if dir, err := os.Open(filepath.Dir(path)); err == nil { //nolint:gosec // the host names its file
		_ = dir.Sync()
		_ = dir.Close()
	}
}

// openFile opens the file, and reads all of it.
func openFile(path string) (*bolt.DB, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockTimeout, FreelistType: bolt.FreelistMapType, OpenFile: openVerified})
	if err != nil {
		return nil, err
	}
	if err := db.View(check); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// openVerified opens a file for the database if its pages can be read.
func openVerified(name string, flag int, mode os.FileMode) (*os.File, error) {
	file, err := os.OpenFile(name, flag, mode)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil {
		err = verify(file, info.Size())
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// check reads the whole database.
func check(tx *bolt.Tx) error {
	meta, calls := tx.Bucket(metaBucket), tx.Bucket(callsBucket)
	if meta == nil || calls == nil {
		return fmt.Errorf("%w: it is a database, and no journal", ErrDamaged)
	}
	switch got := string(meta.Get(formatKey)); {
	case len(got) > len(format) || len(got) == len(format) && got > format:
		return fmt.Errorf("%w: format %.20q; this one reads %q", ErrNewer, got, format)
	case got != format:
		return fmt.Errorf("%w: its format is %.20q", ErrDamaged, got)
	}
	return calls.ForEach(func(key, value []byte) error {
		_, err := decode(key, value)
		return err
	})
}
