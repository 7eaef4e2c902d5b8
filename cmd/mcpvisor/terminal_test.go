package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/mcptest"
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

// Without a terminal top prints the table of status.
func TestTop_without_terminal(t *testing.T) {
	b := startReady(t, map[string]any{"one": entry(mcptest.Script{})}, "run")
	out, _ := b.exits(cli.ExitOK, "top")
	require.Regexp(t, `^SERVER +STATE +FOR .*\none +ready `, out)
}

// In a real terminal of 80 columns and 24 lines top shows a crash when it happens, and
// leaves the terminal as it was.
func TestTop_in_terminal(t *testing.T) {
	faults := []mcptest.Fault{{At: mcptest.StageStart, Starts: []int{2, 3, 4, 5}, Do: mcptest.ActionStderrLine, Text: "cannot open the database"},
		{At: mcptest.StageStart, Starts: []int{2, 3, 4, 5}, Do: mcptest.ActionExit, Code: 7}}
	dir, server := recorded(t, faults...)
	server["retry"] = map[string]any{"max_attempts": 3, "base": "30s"}
	b := startRun(t, map[string]any{"files": server, "search": entry(mcptest.Script{})}, "run")
	b.await("(2 of 2 ready)")

	runtimeDir := os.Getenv("XDG_RUNTIME_DIR")
	term := newTerminalOf(t, "80", runtimeDir, fmt.Sprintf("NO_COLOR=1 XDG_RUNTIME_DIR=%s %s -c %s top; echo ended with $?; cat", runtimeDir, buildProgram(t), b.config))
	term.await(`▸ files +● ready .*\n  search +● ready `)
	term.await(`2 of 2 ready`)
	process, err := os.FindProcess(mcptest.PIDs(dir)[0])
	require.NoError(t, err)
	require.NoError(t, process.Kill())
	term.await(`▸ files +↻ backoff .* \d\ds`)
	term.await(`! files .*signal: killed`)
	term.await(`1 of 2 ready`)
	term.press("Enter")
	term.await(`cause +.*signal: killed`)
	term.press("q")
	screen := term.await(`ended with 0`)
	require.NotContains(t, screen, "signal: killed", "the screen of before is back")
	require.LessOrEqual(t, strings.Count(screen, "\n"), 24)
}

// programDir is a directory for the program of buildProgram. The tests remove it at their end.
var programDir string

var build = sync.OnceValues(func() (path string, err error) {
	path = filepath.Join(programDir, "bin", "mcpvisor")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return path, err
})

// buildProgram builds the command, once for all tests.
func buildProgram(t *testing.T) string {
	t.Helper()
	path, err := build()
	require.NoError(t, err)
	return path
}
