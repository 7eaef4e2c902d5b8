package mcpvisor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// CatalogStore keeps what lazy servers offer ([StartLazy]), so that they are listed without being started. A client calls
// it for one server at a time, and never while it holds a call up. See facade.WithCatalogStore and [CatalogDir].
type CatalogStore interface {
	// Load returns what was saved for a server last; nil if nothing was.
	Load(server string) ([]byte, error)
	// Save replaces it. data must not be changed. Close of the client waits for it until its context ends.
	Save(server string, data []byte) error
}

// CatalogDir is a CatalogStore with one file for each server, in a directory that it makes when it is needed. Several
// processes may share it: a file is replaced as a whole, and the last one counts.
type CatalogDir string

func (d CatalogDir) path(server string) string { return filepath.Join(string(d), server+".json") }

// Load implements [CatalogStore].
func (d CatalogDir) Load(server string) ([]byte, error) {
	if err := CheckServerName(server); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(d.path(server))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// Save implements [CatalogStore].
func (d CatalogDir) Save(server string, data []byte) error {
	if err := CheckServerName(server); err != nil {
		return err
	}
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(string(d), "."+server+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), d.path(server))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
