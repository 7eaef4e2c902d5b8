//go:build real

package real

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// playwright returns a server that has no browser, whatever is installed here.
func playwright(t *testing.T) *mcpvisor.Stdio {
	return playwrightWith(t, filepath.Join(t.TempDir(), "none"))
}

func playwrightWith(t *testing.T, browser string) *mcpvisor.Stdio {
	t.Helper()
	s := node("node_modules/@playwright/mcp/cli.js", "--headless", "--isolated", "--no-sandbox",
		"--output-dir", t.TempDir(), "--executable-path", browser)(t)
	s.Dir = t.TempDir()
	s.Env = map[string]string{"TMPDIR": t.TempDir()} // profiles; a kill leaves them
	return s
}

func checkPlaywright(t *testing.T, c *facade.Client) {
	res, err := c.CallTool(t.Context(), "playwright/browser_navigate", map[string]any{"url": "http://127.0.0.1:9/"})
	require.NoError(t, err)
	require.True(t, res.IsError)
}

// silentBrowser returns a program in the place of a browser. It starts a child, writes
// both process ids to a file, and prints nothing. Playwright runs browsers in their
// own process group, and waits three minutes for them.
func silentBrowser(t *testing.T) (program, pids string) {
	t.Helper()
	dir := t.TempDir()
	program, pids = filepath.Join(dir, "browser"), filepath.Join(dir, "pids")
	script := fmt.Sprintf("#!/bin/sh\nsleep 1000 &\necho $$ $! > %[1]s.new\nmv %[1]s.new %[1]s\nwait\n", pids)
	testutil.WriteProgram(t, program, []byte(script))
	return program, pids
}

// awaitBrowser waits for a browser and returns its processes.
func awaitBrowser(t *testing.T, path string) (pids [2]int) {
	t.Helper()
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(path)
		if err != nil {
			return false
		}
		_, err = fmt.Sscan(string(text), &pids[0], &pids[1])
		return err == nil
	}, 30*time.Second, 10*time.Millisecond, "no browser was started")
	require.NoError(t, os.Remove(path))
	t.Cleanup(func() {
		if t.Failed() {
			_ = syscall.Kill(-pids[0], syscall.SIGKILL)
		}
	})
	return pids
}

// isRunning reports whether a process exists and is not a zombie.
func isRunning(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

func TestDescendants_browser_ends_with_its_server(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes that leave the group of a server cannot be found on this system")
	}
	program, pids := silentBrowser(t)
	c := newClient(t)
	events := c.Watch(t.Context())
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "playwright", Stdio: playwrightWith(t, program),
		Policy: supervisor.Retry(3, 100*time.Millisecond)}))
	awaitKind(t, events, mcpvisor.EventReady)

	navigate := func() (browser [2]int, server int, ended <-chan error) {
		result := make(chan error, 1)
		go func() {
			_, err := c.CallTool(t.Context(), "playwright/browser_navigate", map[string]any{"url": "http://127.0.0.1:9/"})
			result <- err
		}()
		browser = awaitBrowser(t, pids) // the leader of its group
		st, ok := c.ServerStatus("playwright")
		require.True(t, ok)
		require.EqualValues(t, 1, st.Calls.InFlight)
		for _, pid := range browser {
			require.True(t, isRunning(pid))
			group, err := syscall.Getpgid(pid)
			require.NoError(t, err)
			require.NotEqual(t, st.Session.PID, group, "playwright runs its browser in the group of the server, so this test checks nothing")
		}
		return browser, st.Session.PID, result
	}
	requireEnded := func(browser [2]int, server int) {
		requireGroupGone(t, server)
		for _, pid := range browser {
			require.Eventually(t, func() bool { return !isRunning(pid) }, 10*time.Second, 10*time.Millisecond,
				"process %d of the browser still runs", pid)
		}
	}

	browser, server, ended := navigate()
	require.NoError(t, syscall.Kill(server, syscall.SIGKILL))
	requireCrashed(t, ended)
	awaitKind(t, events, mcpvisor.EventReady)
	requireEnded(browser, server)

	browser, server, ended = navigate()
	closeClient(t, c)
	require.Error(t, <-ended)
	requireEnded(browser, server)
}
