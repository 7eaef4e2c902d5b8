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

// Without a terminal top prints the table of status.
func TestTop_without_terminal(t *testing.T) {
	b := startRun(t, map[string]any{"one": entry(mcptest.Script{})}, "run")
	b.await(" ready  ")
	code, out, errs := b.command("top")
	require.Equal(t, cli.ExitOK, code, errs)
	require.Regexp(t, `^SERVER +STATE +FOR .*\none +ready `, out)
}

// In a real terminal of 80 columns and 24 lines top shows a crash when it happens, and
// leaves the terminal as it was.
func TestTop_in_terminal(t *testing.T) {
	tmux, err := exec.LookPath("tmux")
	if err != nil {
		t.Skip("tmux is not installed")
	}
	faults := []mcptest.Fault{{At: mcptest.StageStart, Starts: []int{2, 3, 4, 5}, Do: mcptest.ActionStderrLine, Text: "cannot open the database"},
		{At: mcptest.StageStart, Starts: []int{2, 3, 4, 5}, Do: mcptest.ActionExit, Code: 7}}
	dir, server := recorded(t, faults...)
	server["retry"] = map[string]any{"max_attempts": 3, "base": "30s"}
	b := startRun(t, map[string]any{"files": server, "search": entry(mcptest.Script{})}, "run")
	b.await("(2 of 2 ready)")

	program := buildProgram(t)
	socket := filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "tmux")
	terminal := func(args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute) // the cleanup needs it, too
		defer cancel()
		out, err := exec.CommandContext(ctx, tmux, append([]string{"-f", "/dev/null", "-S", socket}, args...)...).CombinedOutput()
		return string(out), err
	}
	command := fmt.Sprintf("NO_COLOR=1 XDG_RUNTIME_DIR=%s %s -c %s top; echo ended with $?; cat", os.Getenv("XDG_RUNTIME_DIR"), program, b.config)
	out, err := terminal("new-session", "-d", "-s", "t", "-x", "80", "-y", "24", command)
	require.NoError(t, err, out)
	t.Cleanup(func() {
		out, err := terminal("kill-server")
		require.NoError(t, err, out)
	})
	screen := ""
	await := func(pattern string) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); !regexp.MustCompile(pattern).MatchString(screen); {
			require.True(t, time.Now().Before(deadline), "%s is not shown in\n%s", pattern, screen)
			screen, _ = terminal("capture-pane", "-p", "-t", "t")
		}
	}
	await(`▸ files +● ready .*\n  search +● ready `)
	await(`2 of 2 ready`)
	pid := mcptest.PIDs(dir)[0]
	process, err := os.FindProcess(pid)
	require.NoError(t, err)
	require.NoError(t, process.Kill())
	await(`▸ files +↻ backoff .* \d\ds`)
	await(`! files .*signal: killed`)
	await(`1 of 2 ready`)
	_, _ = terminal("send-keys", "-t", "t", "Enter")
	await(`cause +.*signal: killed`)
	_, _ = terminal("send-keys", "-t", "t", "q")
	await(`ended with 0`)
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
