package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/internal/regularfile"
)

// ConfigVariable names the variable that lists configuration files, as PATH lists
// directories.
const ConfigVariable = "MCPVISOR_CONFIG"

// Sources are the configuration files that a command reads as one. Entries of later files
// replace those of earlier ones.
type Sources struct {
	// Paths are the files, in the order in which they are read.
	Paths []string
	// Key stands for the files where other commands look for their `mcpvisor run`.
	Key string
	// Chosen says that the user has named the files, by --config or the variable.
	Chosen bool
}

// NewSources returns the files of the command line, else those of the variable, else the
// user's file and the one of this directory, as far as they exist.
//
// Of the default files the last one is the key. So a user's file that is made while
// `mcpvisor run` is running does not hide that.
func NewSources(named []string) Sources {
	if len(named) == 0 {
		named = slices.DeleteFunc(filepath.SplitList(os.Getenv(ConfigVariable)), func(path string) bool { return path == "" })
	}
	if len(named) > 0 {
		s := Sources{Paths: named, Key: named[0], Chosen: true}
		if len(named) > 1 {
			whole := make([]string, len(named))
			for i, path := range named {
				whole[i] = path
				if abs, err := filepath.Abs(path); err == nil {
					whole[i] = abs
				}
			}
			s.Key = strings.Join(whole, string(filepath.ListSeparator))
		}
		return s
	}
	var s Sources
	for _, path := range DefaultFiles() {
		if _, err := os.Stat(path); err == nil {
			s.Paths, s.Key = append(s.Paths, path), path
		}
	}
	if len(s.Paths) == 0 { // the error is about the file of this directory
		s.Paths, s.Key = []string{config.DefaultPath}, config.DefaultPath
	}
	return s
}

// nodePrefix begins the name by which --config means a node of a fleet on this machine.
const nodePrefix = "fleet:"

// NodeSources stand for a node of a fleet in place of files.
func NodeSources(id string) Sources {
	name := nodePrefix + id
	return Sources{Paths: []string{name}, Key: name, Chosen: true}
}

// Node returns the id of the node of a fleet that these sources stand for; false for files.
func (s Sources) Node() (id string, ok bool) { return strings.CutPrefix(s.Key, nodePrefix) }

// DefaultFiles returns the files that are read if the user names none, as far as they exist.
func DefaultFiles() []string {
	return slices.DeleteFunc([]string{UserConfig(), config.DefaultPath}, func(path string) bool { return path == "" })
}

// UserConfig returns the path of the user's file, which need not exist; empty if the
// user has no directory for configuration.
func UserConfig() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "mcpvisor", "mcp.json")
}

// String names the files for the user.
func (s Sources) String() string { return strings.Join(s.Paths, ", ") }

// Flags returns the options that make another command read the same files.
func (s Sources) Flags() string {
	var b strings.Builder
	for _, path := range s.Paths {
		b.WriteString("--config " + plaintext.ShellWord(path) + " ")
	}
	return strings.TrimSpace(b.String())
}

// maxFile is the longest file that is read, in bytes; package config reads less.
const maxFile = 64 << 20

// Digest returns a hash of the content of the files; empty if one cannot be read.
func (s Sources) Digest() string {
	sum := sha256.New()
	for _, path := range s.Paths {
		content, err := regularfile.Read(path, maxFile)
		if err != nil {
			return ""
		}
		own := sha256.Sum256(content)
		sum.Write(own[:])
	}
	return hex.EncodeToString(sum.Sum(nil))
}
