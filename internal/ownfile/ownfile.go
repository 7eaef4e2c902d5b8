// Package ownfile opens files that no other user of the machine has put in their place.
package ownfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Dir is an open directory that belongs to this user, and in which no other user may list or make files.
// Its files are opened relative to it, so it does not matter what its path names later.
type Dir struct{ root *os.Root }

// OpenDir opens a directory, and makes a missing one with mode 0700 if create is set. A symbolic link
// is refused.
func OpenDir(path string, create bool) (*Dir, error) {
	if create {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, err
		}
	}
	named, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(".") // the open directory cannot be exchanged after the checks
	owner, known := 0, false
	if err == nil {
		owner, known = OwnerOf(info)
	}
	switch {
	case err != nil:
	case !os.SameFile(named, info), known && owner != os.Geteuid():
		err = fmt.Errorf("%s is not a directory of this user", path)
	case known && info.Mode().Perm()&0o066 != 0:
		err = fmt.Errorf("%s is open to other users (mode %#o); run: chmod 700 %s", path, info.Mode().Perm(), path)
	}
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	return &Dir{root}, nil
}

// Root returns the open directory. Its methods follow symbolic links inside it.
func (d *Dir) Root() *os.Root { return d.root }

// Close closes the directory.
func (d *Dir) Close() { _ = d.root.Close() }

// OpenFile opens a file of the directory, of mode 0600 if it is created. It refuses what [Check] does, which
// another user may have left there before the directory was closed.
func (d *Dir) OpenFile(name string, flag int) (*os.File, error) {
	path := filepath.Join(d.root.Name(), name)
	if info, err := d.root.Lstat(name); err == nil { // a link or a pipe is not opened
		if err := Check(path, info); err != nil {
			return nil, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := d.root.OpenFile(name, flag, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = Check(path, info)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Check refuses what is no regular file of this user or the superuser, or has a second name, which may be
// that of a file elsewhere.
func Check(path string, info fs.FileInfo) error {
	switch owner, known := OwnerOf(info); {
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file; delete it", path)
	case known && owner != os.Geteuid() && owner != 0:
		return fmt.Errorf("%s belongs to another user; delete it", path)
	case namesOf(info) > 1:
		return fmt.Errorf("%s has another name, too (hard links); delete it", path)
	}
	return nil
}
