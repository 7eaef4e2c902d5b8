package main

import (
	"errors"
	"fmt"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/configfile"
	"github.com/mcpvisor/mcpvisor/config"
)

// targetFlags choose the file that a command changes.
type targetFlags struct {
	User bool `help:"Change the user's file, ${user}, instead of ${config} in this directory."`
}

// target returns the file that a command changes: the user's file with --user, else the last
// file that the user has named, else that of this directory.
func (s sources) target(flags targetFlags) (string, error) {
	switch {
	case flags.User && userConfig() == "":
		return "", usageError("there is no directory for the user's configuration; set HOME, or use --config")
	case flags.User && s.chosen:
		return "", usageError("--user names a file, and so does --config or %s; use one of them", configVariable)
	case flags.User:
		return userConfig(), nil
	case s.chosen:
		return s.paths[len(s.paths)-1], nil
	}
	return config.DefaultPath, nil
}

// openTarget opens the file that a command changes. It need not exist.
func (inv *invocation) openTarget(flags targetFlags) (*configfile.File, error) {
	path, err := inv.sources.target(flags)
	if err != nil {
		return nil, err
	}
	f, err := configfile.Open(path)
	if err != nil {
		return nil, usageError("%v", err)
	}
	return f, nil
}

// maxEdits is how often a change is made again because another program was faster.
const maxEdits = 5

// editTarget applies a change to the file and writes it. change is called again if another
// program has changed the file meanwhile.
func (inv *invocation) editTarget(flags targetFlags, change func(*configfile.File) error) (*configfile.File, error) {
	for n := 1; ; n++ {
		f, err := inv.openTarget(flags)
		if err != nil {
			return nil, err
		}
		if err := change(f); err != nil {
			return nil, err
		}
		switch err := f.Write(); {
		case err == nil:
			return f, nil
		case !errors.Is(err, configfile.ErrChanged) || n == maxEdits:
			return nil, &exitError{exitFailed, errorReport{Kind: kindFailed, Message: err.Error()}}
		}
	}
}

// place is where an entry of a file is, as in ".mcp.json:4".
func place(f *configfile.File, name string) string {
	_, line, _ := f.Entry(name)
	return fmt.Sprintf("%s:%d", f.Path(), line)
}

// warnEntry reports what the loader says about an entry that was changed.
func (inv *invocation) warnEntry(f *configfile.File, name string) {
	file, err := config.Parse(f.Bytes(), f.Path(), config.WithInput(func(config.Input) (string, error) { return "", nil }),
		config.WithKeyring(func(string, string) (string, error) { return "", nil }))
	if err != nil {
		inv.warn(name, "%v", err)
		return
	}
	for _, p := range file.Problems {
		if p.Server == name {
			inv.warn(name, "%s", p)
		}
	}
}
