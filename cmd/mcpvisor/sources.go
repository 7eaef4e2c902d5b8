package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor/config"
)

// configVariable names the variable that lists configuration files, as PATH lists
// directories.
const configVariable = "MCPVISOR_CONFIG"

// sources are the configuration files that a command reads as one. Entries of later files
// replace those of earlier ones.
type sources struct {
	// paths are the files, in the order in which they are read.
	paths []string
	// key stands for the files where other commands look for their `mcpvisor run`.
	key string
	// chosen says that the user has named the files, by --config or the variable.
	chosen bool
}

// newSources returns the files of the command line, else those of the variable, else the
// user's file and the one of this directory, as far as they exist.
//
// Of the default files the last one is the key. So a user's file that is made while
// `mcpvisor run` is running does not hide that.
func newSources(named []string) sources {
	if len(named) == 0 {
		named = slices.DeleteFunc(filepath.SplitList(os.Getenv(configVariable)), func(path string) bool { return path == "" })
	}
	if len(named) > 0 {
		s := sources{paths: named, key: named[0], chosen: true}
		if len(named) > 1 {
			whole := make([]string, len(named))
			for i, path := range named {
				whole[i] = path
				if abs, err := filepath.Abs(path); err == nil {
					whole[i] = abs
				}
			}
			s.key = strings.Join(whole, string(filepath.ListSeparator))
		}
		return s
	}
	var s sources
	for _, path := range []string{userConfig(), config.DefaultPath} {
		if _, err := os.Stat(path); err == nil && path != "" {
			s.paths, s.key = append(s.paths, path), path
		}
	}
	if len(s.paths) == 0 { // the error is about the file of this directory
		s.paths, s.key = []string{config.DefaultPath}, config.DefaultPath
	}
	return s
}

// userConfig returns the path of the user's file, which need not exist; empty if the
// user has no directory for configuration.
func userConfig() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "mcpvisor", "mcp.json")
}

// String names the files for the user.
func (s sources) String() string { return strings.Join(s.paths, ", ") }

// flags returns the options that make another command read the same files.
func (s sources) flags() string {
	var b strings.Builder
	for _, path := range s.paths {
		b.WriteString("--config " + path + " ")
	}
	return strings.TrimSpace(b.String())
}

// digest returns a hash of the content of the files; empty if one cannot be read.
func (s sources) digest() string {
	sum := sha256.New()
	for _, path := range s.paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return ""
		}
		own := sha256.Sum256(content)
		sum.Write(own[:])
	}
	return hex.EncodeToString(sum.Sum(nil))
}
