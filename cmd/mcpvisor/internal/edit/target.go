// Package edit has the commands of mcpvisor that change configuration files: add, remove, init
// and import. They start no server and change no file of another host.
package edit

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/attach"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/configfile"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/websocket"
	"github.com/mcpvisor/mcpvisor/config"
)

// targetFlags choose the file that a command changes.
type targetFlags struct {
	User bool `help:"Change the user's file, ${user}, instead of ${config} in this directory."`
}

// target returns the file that a command changes: the user's file with --user, else the last
// file that the user has named, else that of this directory.
func target(s cli.Sources, user bool) (string, error) {
	id, isNode := s.Node()
	switch {
	case isNode && !user:
		return "", cli.UsageError("--config fleet:%s is a node, and its servers are those of its fleet; change the file that you apply, and run mcpvisor fleet apply FILE", id)
	case user && cli.UserConfig() == "":
		return "", cli.UsageError("there is no directory for the user's configuration; set HOME, or use --config")
	case user && s.Chosen:
		return "", cli.UsageError("--user names a file, and so does --config or %s; use one of them", cli.ConfigVariable)
	case user:
		return cli.UserConfig(), nil
	case s.Chosen:
		return s.Paths[len(s.Paths)-1], nil
	}
	return config.DefaultPath, nil
}

func openTarget(s cli.Sources, user bool) (*configfile.File, error) {
	path, err := target(s, user)
	if err != nil {
		return nil, err
	}
	f, err := configfile.Open(path)
	if err != nil {
		return nil, cli.UsageError("%v", err)
	}
	return f, nil
}

// maxEdits is how often a change is made again because another program was faster.
const maxEdits = 5

// errNotWritten is what a change returns to editTarget if the file is not to be written.
var errNotWritten = errors.New("not written")

// editTarget applies a change to the file and writes it. change is called again if another
// program has changed the file meanwhile.
func editTarget(inv *cli.Invocation, flags targetFlags, change func(*configfile.File) error) (*configfile.File, error) {
	for n := 1; ; n++ {
		f, err := openTarget(inv.Sources, flags.User)
		if err != nil {
			return nil, err
		}
		switch err := change(f); {
		case errors.Is(err, errNotWritten):
			return f, nil
		case err != nil:
			return nil, err
		}
		switch err := f.Write(); {
		case err == nil:
			return f, nil
		case !errors.Is(err, configfile.ErrChanged) || n == maxEdits:
			return nil, &cli.ExitError{Code: cli.ExitFailed, Report: cli.Report{Kind: cli.KindFailed, Message: err.Error()}}
		}
	}
}

// place is where an entry of a file is, as in ".mcp.json:4".
func place(f *configfile.File, name string) string {
	_, line, _ := f.Entry(name)
	return fmt.Sprintf("%s:%d", f.Path(), line)
}

// warnEntry reports what the loader says about an entry that was changed.
func warnEntry(inv *cli.Invocation, f *configfile.File, name string) {
	file, err := config.Parse(f.Bytes(), f.Path(), config.WithInput(func(config.Input) (string, error) { return "", nil }),
		config.WithKeyring(func(string, string) (string, error) { return "", nil }), config.WithCommands(func([]string, string) (string, error) { return "", nil }), websocket.Option)
	if err != nil {
		inv.Warn(name, "%v", err)
		return
	}
	for _, p := range file.Problems {
		if p.Server == name {
			inv.Warn(name, "%s", p)
		}
	}
}

// Entries returns the names of the entries in the file that a command changes, also of those
// that are disabled or cannot be used. user is its --user. It is empty if the file cannot be
// read.
func Entries(sources cli.Sources, user bool) []string {
	f, err := openTarget(sources, user)
	if err != nil {
		return nil
	}
	return f.Names()
}

// tellRun makes a running `mcpvisor run` of the configuration read the file that was changed,
// and says what that changes. Without one it does nothing.
func tellRun(inv *cli.Invocation) {
	running, info, err := attach.Find(inv.Context, inv.Sources.Key)
	if err != nil {
		return
	}
	defer running.Close()
	answer, err := running.Reload(inv.Context, false)
	switch {
	case err != nil:
		inv.Warn("", "mcpvisor run (pid %d) did not read the file again: %v", info.PID, err)
		return
	case answer.Problem != "":
		inv.Warn("", "%s; mcpvisor run (pid %d) keeps its servers as they are", answer.Problem, info.PID)
		return
	}
	// The run follows the file, and may have been faster than this command.
	if text := describeChanges(answer.Changes); text != "" {
		inv.Note("mcpvisor run (pid %d) has read it: %s", info.PID, text)
	} else {
		inv.Note("mcpvisor run (pid %d) has read it", info.PID)
	}
}

func describeChanges(changes []control.Change) string {
	var parts []string
	for _, c := range changes {
		text := string(c.Action) + " " + c.Server
		if c.Error != "" {
			text += " failed: " + c.Error
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}
