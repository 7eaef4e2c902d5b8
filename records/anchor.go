package records

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/ownfile"
)

// anchor is what the file in the second place says: which lines there must be.
type anchor struct {
	Version int `json:"version"`
	// First is the number of the first record that is kept: earlier files were deleted by the writer.
	First uint64 `json:"first"`
	// Segment is the number with which the file of the last record begins. Seq and Hash are those of that record.
	Segment uint64    `json:"segment"`
	Seq     uint64    `json:"seq"`
	Hash    string    `json:"hash"`
	Time    time.Time `json:"time"`
	// MAC is the HMAC of the JSON of the other fields; empty without a key.
	MAC string `json:"mac,omitempty"`
}

// AnchorPath returns where the anchor of a directory is by default: beside it, as in "records.anchor".
func AnchorPath(dir string) string { return filepath.Clean(dir) + ".anchor" }

// mac returns the MAC of an anchor; empty without a key.
func (a anchor) mac(key []byte) string {
	if len(key) == 0 {
		return ""
	}
	a.MAC = ""
	text, _ := json.Marshal(a) // it always marshals
	m := hmac.New(sha256.New, key)
	m.Write(text)
	return hex.EncodeToString(m.Sum(nil))
}

// maxAnchorBytes is more than an anchor has.
const maxAnchorBytes = 4 << 10

// readAnchor reads an anchor, and checks it with the key. A missing file is fs.ErrNotExist.
func readAnchor(path string, key []byte) (a anchor, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return a, fmt.Errorf("read the anchor: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxAnchorBytes {
		return a, fmt.Errorf("%s is not an anchor of records; name the right file", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return a, fmt.Errorf("read the anchor: %w", err)
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return a, fmt.Errorf("%s is not an anchor of records, or was changed: %w", path, err)
	}
	switch {
	case a.Version != Version:
		return a, fmt.Errorf("the anchor %s has version %d, and this program reads %d", path, a.Version, Version)
	case len(key) > 0 && !hmac.Equal([]byte(a.MAC), []byte(a.mac(key))):
		return a, fmt.Errorf("the anchor %s was not written with this key, or was changed", path)
	case len(key) == 0 && a.MAC != "":
		return a, fmt.Errorf("the anchor %s was written with a key; give the key", path)
	}
	return a, nil
}

// write replaces the anchor at a path, whole or not at all.
func (a anchor) write(path string, key []byte) error {
	a.Version, a.Time = Version, time.Now().Round(0).UTC()
	a.MAC = a.mac(key)
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.new")
	if err != nil {
		return fmt.Errorf("write the anchor: %w", err)
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write the anchor: %w", err)
	}
	return nil
}

// checkAnchorPlace refuses an anchor that another user has put there.
func checkAnchorPlace(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return ownfile.Check(path, info)
}
