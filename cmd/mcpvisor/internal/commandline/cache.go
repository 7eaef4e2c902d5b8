package commandline

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
)

// maxCached is how many configurations the cache remembers.
const maxCached = 20

// Cache remembers the names of tools between commands, in a file of the user's cache
// directory. It is a help for typing: what it cannot read or write is missing, and no error.
type Cache struct {
	// Path is the file; empty for no cache.
	Path string
}

// cached are the tools of one configuration.
type cached struct {
	Key    string      `json:"key"`
	Digest string      `json:"digest"` // of the content of the configuration
	Tools  []Candidate `json:"tools"`
}

// DefaultCache returns the cache of the user.
func DefaultCache() Cache {
	dir, err := os.UserCacheDir()
	if err != nil {
		return Cache{}
	}
	return Cache{filepath.Join(dir, "mcpvisor", "names.json")}
}

func (c Cache) read() (all []cached) {
	data, err := os.ReadFile(c.Path)
	if err != nil || json.Unmarshal(data, &all) != nil {
		return nil
	}
	return all
}

// Tools returns the tools of a configuration with a key, if its content has not changed.
func (c Cache) Tools(key, digest string) []Candidate {
	for _, one := range c.read() {
		if one.Key == key && one.Digest == digest {
			return one.Tools
		}
	}
	return nil
}

// Store remembers the tools of a configuration. It replaces the file as a whole, so that a
// reader never sees a part of it.
func (c Cache) Store(key, digest string, tools []Candidate) {
	if c.Path == "" || digest == "" {
		return
	}
	all := slices.DeleteFunc(c.read(), func(one cached) bool { return one.Key == key })
	all = slices.Insert(all, 0, cached{key, digest, tools})
	data, err := json.Marshal(all[:min(len(all), maxCached)])
	if err != nil || os.MkdirAll(filepath.Dir(c.Path), 0o700) != nil {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(c.Path), "names-*")
	if err != nil {
		return
	}
	_, err = f.Write(data)
	if closed := f.Close(); err != nil || closed != nil || os.Rename(f.Name(), c.Path) != nil {
		_ = os.Remove(f.Name())
	}
}
