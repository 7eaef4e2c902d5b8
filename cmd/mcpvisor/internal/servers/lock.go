package servers

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/regularfile"
	"github.com/mcpvisor/mcpvisor/lock"
	"github.com/mcpvisor/mcpvisor/rules"
)

// LockGuard compares what servers offer with the lock file of a configuration. The zero value compares nothing. One
// goroutine at a time calls its own methods; the guard itself is safe for concurrent use.
type LockGuard struct {
	lock.Guard
	lockRules
}

// lockRules are what a LockGuard compares with.
type lockRules struct {
	path   string // of the lock file; empty: nothing is compared
	mode   lock.Mode
	starts map[string]json.RawMessage
	text   []byte // of the lock file, as it was read last
}

// LockPath returns the path of the lock file of a configuration, whether the configuration uses it or not.
func LockPath(file *config.File) string {
	if file.LockPath != "" {
		return file.LockPath
	}
	return filepath.Join(filepath.Dir(file.Paths[len(file.Paths)-1]), lock.FileName)
}

// ReadLock reads a lock file, and returns its text, too. A file that does not exist is fs.ErrNotExist.
func ReadLock(path string) (*lock.File, []byte, error) {
	text, err := regularfile.Read(path, lock.MaxBytes)
	if err != nil {
		return nil, nil, err
	}
	file, err := lock.Parse(text)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return file, text, err
}

// StartsOf says what a configuration starts, by server.
func StartsOf(file *config.File) map[string]json.RawMessage {
	starts := map[string]json.RawMessage{}
	for _, s := range file.Servers {
		if s.Start != nil {
			starts[s.Spec.Name] = s.Start
		}
	}
	return starts
}

// Use makes the guard do what a configuration says, with the present lock file. It reports whether that may change what is
// listed.
func (g *LockGuard) Use(file *config.File) (changed bool) {
	before := g.lockRules
	g.lockRules = lockRules{mode: lock.Mode(cmp.Or(file.Lock, string(lock.Off)))}
	if g.mode == lock.Off {
		g.Set(lock.Off, nil, nil, nil)
		return before.path != ""
	}
	g.path, g.starts, g.text = file.LockPath, StartsOf(file), before.text
	return g.Reread() || before.path != g.path || before.mode != g.mode
}

// Reread makes the guard compare with the present lock file, and reports whether that has changed. The configuration counts
// as Use has read it.
func (g *LockGuard) Reread() (changed bool) {
	if g.path == "" {
		return false
	}
	before := g.text
	locked, text, err := ReadLock(g.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("there is no %s; make it with mcpvisor lock", g.path)
	}
	g.text = text
	g.Set(g.mode, locked, err, g.starts)
	return !bytes.Equal(before, text)
}

// Changed reports whether the lock file has another content than was read last.
func (g *LockGuard) Changed() bool {
	if g.path == "" {
		return false
	}
	text, _ := regularfile.Read(g.path, lock.MaxBytes)
	return !bytes.Equal(text, g.text)
}

// Path is the path of the lock file that the guard compares with; empty if it compares nothing.
func (g *LockGuard) Path() string { return g.path }

// guardOptions have copies of the servers of a file looked at, and their calls decided by its rules.
func (o *Opener) guardOptions(file *config.File) []facade.Option {
	calls := facade.WithCallGuard(NewGate(file, nil, nil))
	if o.Guard != nil {
		return []facade.Option{facade.WithCatalogGuard(o.Guard), calls}
	}
	g := new(LockGuard)
	g.Use(file)
	return []facade.Option{facade.WithCatalogGuard(g), calls}
}

// NewGate makes the gate of the rules of a file. Without ask, calls that a rule asks about are refused. decided may be nil; see
// rules.Options.
func NewGate(file *config.File, ask rules.Asker, decided func(rules.Question, error)) *rules.Gate {
	g := rules.NewGate(ask, rules.Options{Decided: decided})
	UseRules(g, file)
	return g
}

// UseRules makes a gate apply the rules of a file.
func UseRules(g *rules.Gate, file *config.File) {
	set, err := rules.Compile(file.Rules, file.Lock == string(lock.Enforce))
	if err != nil { // package config has checked them
		set, _ = rules.Compile([]rules.Rule{{Do: rules.Deny, Source: err.Error()}}, false)
	}
	g.Set(set)
}
