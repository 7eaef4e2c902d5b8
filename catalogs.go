package mcpvisor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/regularfile"
	"github.com/mcpvisor/mcpvisor/internal/retention"
)

// CatalogStore keeps what lazy servers offer ([StartLazy]), so that they are listed without being started. It is safe for
// concurrent use. No call of a tool waits for it. See facade.WithCatalogStore and [CatalogDir].
type CatalogStore interface {
	// Load returns what was saved for a server last; nil if nothing was. Register waits for it until its context ends,
	// and for 5 seconds at most.
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
	d.removeTemporary(server)
	data, err := regularfile.Read(d.path(server), retention.ListsBytes)
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
	d.removeTemporary(server)
	f, err := os.CreateTemp(string(d), temporaryName(server))
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

// temporaryName is the pattern of the names of files that Save renames. A process that is killed leaves one behind.
func temporaryName(server string) string { return "." + server + ".json.*" }

// abandoned is the age from which no process still writes a temporary file.
const abandoned = time.Hour

// removeTemporary removes what killed processes have left of a server.
func (d CatalogDir) removeTemporary(server string) {
	left, _ := fs.Glob(os.DirFS(string(d)), temporaryName(server)) // it fails for bad patterns only
	for _, name := range left {
		path := filepath.Join(string(d), name)
		if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > abandoned {
			_ = os.Remove(path)
		}
	}
}
