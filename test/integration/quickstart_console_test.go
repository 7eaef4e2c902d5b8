//go:build linux

package integration

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestQuickstart_console types the commands of docs/quickstart.md in their order, as a new
// user does: with an empty home directory, and no program but mcpvisor and the server of the
// page. What they print must be what the page says.
func TestQuickstart_console(t *testing.T) {
	if !raceDetector && !strings.Contains(flag.Lookup("test.run").Value.String(), "Quickstart") {
		t.Skip("it builds the program, which takes a minute: .ci/run race and -run Quickstart do")
	}
	page, err := os.ReadFile("../../docs/quickstart.md")
	require.NoError(t, err)
	server := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindSubmatch(page)[1]
	blocks := regexp.MustCompile("(?ms)^```console\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	require.GreaterOrEqual(t, len(blocks), 3, "the page has commands")
	c := newConsole(t)
	buildProgram(t, c.dir, "notes-server", server)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(c.bin, "mcpvisor"), "./cmd/mcpvisor")
	build.Dir = filepath.Join("..", "..")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	typed := 0
	for _, block := range blocks {
		for _, step := range strings.Split("\n"+block[1], "\n$ ")[1:] {
			command, want, _ := strings.Cut(step, "\n")
			require.Equal(t, plain(want), plain(c.run(command)), "$ %s", command)
			typed++
		}
	}
	require.Greater(t, typed, 10)
	require.Nil(t, c.background, "the page ends what it has started")
	left, err := filepath.Glob(filepath.Join(c.home, "mcpvisor", "*.sock"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// console is a shell in a bare environment.
type console struct {
	t              *testing.T
	dir, home, bin string
	background     *exec.Cmd // "command &"; nil without one
}

func newConsole(t *testing.T) *console {
	t.Helper()
	home, err := os.MkdirTemp("", "mv") //nolint:usetesting // paths of sockets are short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	c := &console{t: t, dir: t.TempDir(), home: home, bin: t.TempDir()}
	t.Cleanup(func() {
		if c.background != nil {
			_ = c.background.Process.Kill()
			_ = c.background.Wait()
		}
	})
	return c
}

// run types a command, and returns what it prints to stdout and stderr. "&" at the end leaves
// the command running until "kill %1".
func (c *console) run(command string) string {
	c.t.Helper()
	if command == "kill %1" {
		require.NoError(c.t, c.background.Process.Signal(syscall.SIGTERM))
		require.NoError(c.t, c.background.Wait())
		c.background = nil
		return ""
	}
	command, isBackground := strings.CutSuffix(command, " &")
	if isBackground {
		command = "exec " + command
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.t.Context()), 2*time.Minute)
	c.t.Cleanup(cancel)
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir, &out, &out
	cmd.Env = []string{"HOME=" + c.home, "PATH=" + c.bin, "XDG_RUNTIME_DIR=" + c.home}
	if isBackground {
		require.NoError(c.t, cmd.Start())
		c.background = cmd
		return ""
	}
	_ = cmd.Run() // the page has a command that fails
	require.NoError(c.t, ctx.Err(), command)
	return answered.ReplaceAllString(out.String(), "$1\n$2")
}

// answered finds the time that a call took, behind a result. The page shows a terminal, where
// call puts a line break between the two; in a pipe the result is what the server sent.
var answered = regexp.MustCompile(`([^\n])(notes/add answered in )`)

// These are what differs from run to run.
var (
	durations = regexp.MustCompile(`\b\d+(\.\d+)?(µs|ms|s)\b`)
	numbers   = regexp.MustCompile(`\b\d{2,}\b`) // process ids
	spaces    = regexp.MustCompile(` +`)
)

// plain returns a text without what differs from run to run, and with one space between
// columns.
func plain(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		line = durations.ReplaceAllString(line, "TIME")
		line = numbers.ReplaceAllString(line, "NUMBER")
		lines = append(lines, strings.TrimSpace(spaces.ReplaceAllString(line, " ")))
	}
	return strings.Join(lines, "\n")
}
