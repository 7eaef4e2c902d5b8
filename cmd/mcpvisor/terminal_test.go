package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// terminal is a terminal of 24 lines, made by tmux.
type terminal struct {
	t            *testing.T
	tmux, socket string
	screen       string // as it was read last
}

// newTerminal runs a command of the shell in a terminal. The test is skipped without tmux. The
// end of the test ends the terminal.
func newTerminal(t *testing.T, dir, command string) *terminal {
	t.Helper()
	return newTerminalOf(t, "100", dir, command)
}

// newTerminalOf is newTerminal with a number of columns.
func newTerminalOf(t *testing.T, columns, dir, command string) *terminal {
	t.Helper()
	tmux, err := exec.LookPath("tmux")
	if err != nil {
		t.Skip("tmux is not installed")
	}
	term := &terminal{t: t, tmux: tmux, socket: filepath.Join(dir, "tmux")}
	term.run("new-session", "-d", "-s", "t", "-x", columns, "-y", "24", command)
	t.Cleanup(func() { term.run("kill-server") })
	return term
}

func (term *terminal) run(args ...string) string {
	term.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(term.t.Context()), time.Minute) // the cleanup needs it, too
	defer cancel()
	out, err := exec.CommandContext(ctx, term.tmux, append([]string{"-f", "/dev/null", "-S", term.socket}, args...)...).CombinedOutput()
	require.NoError(term.t, err, string(out))
	return string(out)
}

// press sends keys, by the names of tmux.
func (term *terminal) press(keys ...string) {
	term.t.Helper()
	term.run(append([]string{"send-keys", "-t", "t", "--"}, keys...)...)
}

// await reads the screen until it matches.
func (term *terminal) await(pattern string) string {
	term.t.Helper()
	re := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(40 * time.Millisecond) { // reading it takes a process
		if term.screen = term.run("capture-pane", "-p", "-t", "t"); re.MatchString(term.screen) {
			return term.screen
		}
		require.True(term.t, time.Now().Before(deadline), "%s is not shown in\n%s", pattern, term.screen)
	}
}
