// Package cli has what all commands of mcpvisor share: their options, their streams,
// what they report, and the codes that they end with.
package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
)

// Exit codes.
const (
	ExitOK          = 0
	ExitFailed      = 1 // the tool or the server failed, or the command was interrupted
	ExitUsage       = 2 // the command line or the configuration is wrong
	ExitUnavailable = 3 // a server is not available
)

// Invocation is one run of the program: its options and its streams.
type Invocation struct {
	Context context.Context
	In      io.Reader
	Out     io.Writer
	Err     io.Writer
	JSON    bool
	// Wait is the duration of --wait; 0 without one. status waits for WaitFor instead.
	Wait    time.Duration
	WaitFor string
	Fresh   bool
	// Sources are the configuration files.
	Sources Sources
	// Words are the words after --; nil without it.
	Words []string
}

// Answer prints the answer of a command: as JSON with --json, and else as show does.
func (inv *Invocation) Answer(answer any, show func() error) error {
	if inv.JSON {
		return PrintJSON(inv.Out, answer)
	}
	return show()
}

// Table prints rows with aligned columns to stdout. header has a tab between two names.
func (inv *Invocation) Table(header string, rows [][]any) error {
	return table.Write(inv.Out, table.Colored(inv.Out), strings.Split(header, "\t"), rows)
}

// Programs returns the paths of this program that exist, at least one: the file that runs, the command that started it, and
// the program of its name in PATH. An upgrade may remove the first ones, which may be in a directory of one version.
func Programs() (paths []string, err error) {
	own, _ := os.Executable()
	for _, name := range []string{own, os.Args[0], "mcpvisor"} {
		if path, err := exec.LookPath(name); err == nil {
			if path, err = filepath.Abs(path); err == nil {
				paths = append(paths, path)
			}
		}
	}
	if len(paths) == 0 {
		err = errors.New("the program mcpvisor is neither where it was nor in PATH; restart the host")
	}
	return paths, err
}
