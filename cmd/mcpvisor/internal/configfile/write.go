package configfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mcpvisor/mcpvisor/internal/configkeys"
	"github.com/mcpvisor/mcpvisor/internal/regularfile"
)

// newMode is the mode of a file that [File.Write] makes. Only its user can read it,
// because users put secrets into such files.
const newMode os.FileMode = 0o600

// Starter returns the text of a new file with an empty list. It names the schema, for
// editors.
func Starter() string {
	return "{\n  \"$schema\": \"" + configkeys.SchemaURL + "\",\n  \"mcpServers\": {}\n}\n"
}

// ErrChanged says that another program has changed a file since it was opened.
var ErrChanged = errors.New("it has been changed since it was read; try again")

// Write replaces the file by its new text: a reader sees the old text or the new one, also
// after a power failure. The mode of the file stays; the target of a symbolic link is
// replaced, and the link stays. It returns [ErrChanged] if the file is not what was read.
// A file that its user may not write is not replaced.
func (f *File) Write() error {
	if f.mode&0o200 == 0 {
		return fmt.Errorf("%s was not written, because it is read-only; make it writable first, or name another file with --config", f.path)
	}
	text := f.Bytes()
	if _, err := parse(f.path, text); err != nil {
		return fmt.Errorf("nothing was written, because the change would break the file: %w", err)
	}
	if err := replaceFile(f.path, f.read, text, f.mode); err != nil {
		return fmt.Errorf("%s was not written: %w", f.path, err)
	}
	f.read = text
	return nil
}

// Backup copies the file as it was read to path, which it replaces.
func (f *File) Backup(path string) error { return Replace(path, f.read) }

// Replace writes a file, as [File.Write] does, whatever it held before.
func Replace(path string, text []byte) error {
	before, err := regularfile.Read(path, maxFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return ReplaceUnchanged(path, before, text)
}

// ReplaceUnchanged is Replace if the file still holds what it did before; nil if it must not
// exist. Otherwise it returns [ErrChanged].
func ReplaceUnchanged(path string, before, after []byte) error {
	mode := newMode
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	return replaceFile(path, before, after, mode)
}

// Create makes a new file. It returns an error that wraps fs.ErrExist if there is one.
func Create(path string, text []byte) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s: %w", path, fs.ErrExist)
	}
	return replaceFile(path, nil, text, newMode)
}

// replaceFile writes a file beside the target and renames it. before is the content that
// the target must have; nil if it must not exist.
func replaceFile(path string, before, after []byte, mode os.FileMode) (err error) {
	target, err := resolve(path)
	if err != nil {
		return err
	}
	dir := filepath.Dir(target)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(dir, "."+filepath.Base(target)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = temp.Close()
			_ = os.Remove(temp.Name())
		}
	}()
	if err := temp.Chmod(mode); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if _, err := temp.Write(after); err != nil {
		return err
	}
	if err := temp.Sync(); err != nil {
		return err
	}
	if err := temp.Close(); err != nil {
		return err
	}
	switch present, err := regularfile.Read(target, maxFile); {
	case errors.Is(err, fs.ErrNotExist):
		if before != nil {
			return ErrChanged
		}
	case err != nil:
		return err
	case before == nil || !bytes.Equal(present, before):
		return ErrChanged
	}
	if err := os.Rename(temp.Name(), target); err != nil {
		return err
	}
	syncDir(dir)
	return nil
}

// resolve returns the file that a path leads to through symbolic links. The file need not
// exist.
func resolve(path string) (string, error) {
	target, err := filepath.EvalSymlinks(path)
	switch {
	case err == nil:
		return target, nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	link, err := os.Readlink(path)
	if err != nil { // the path itself does not exist
		return path, nil //nolint:nilerr // it will be made
	}
	if !filepath.IsAbs(link) {
		link = filepath.Join(filepath.Dir(path), link)
	}
	return link, nil
}

// syncDir makes a rename last over a power failure, where the system allows it.
func syncDir(dir string) {
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	_ = d.Sync() // Windows refuses it, and needs it not
	_ = d.Close()
}
