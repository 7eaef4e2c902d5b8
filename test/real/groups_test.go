//go:build real

package real

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// A server that comes after a browser server ends and starts with it, behind it. With a browser installed, the server
// opens a page before and after.
func TestGroup_browser_server_is_killed(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "<title>Hello of the site</title>")
	}))
	defer site.Close()
	browser, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		browser = filepath.Join(t.TempDir(), "none")
		t.Log("no page is opened: chromium-headless-shell is not installed")
	}
	c := newClient(t)
	require.NoError(t, c.SetGroups(t.Context(), []mcpvisor.Group{{Name: "web", Members: []string{"browser", "notes"}, Strategy: supervisor.RestForOne}}))
	notes := node(scope + "server-memory/dist/index.js")(t)
	notes.Env = map[string]string{"MEMORY_FILE_PATH": filepath.Join(t.TempDir(), "memory.json")}
	retry := supervisor.Retry(3, 100*time.Millisecond)
	require.NoError(t, c.Register(t.Context(), // in the wrong order
		mcpvisor.ServerSpec{Name: "notes", Stdio: notes, Policy: retry, Timeouts: patient, StartSupervised: true},
		mcpvisor.ServerSpec{Name: "browser", Stdio: playwrightWith(t, browser), Policy: retry, Timeouts: patient, StartSupervised: true}))
	before := map[string]int{}
	for range 2 { // before the kill, and after it
		require.NoError(t, c.WaitReady(t.Context(), "browser", "notes"))
		readyAt := map[string]time.Time{}
		for _, name := range []string{"browser", "notes"} {
			status, _ := c.ServerStatus(name)
			require.NotEqual(t, before[name], status.Session.PID, "%s has started", name)
			before[name], readyAt[name] = status.Session.PID, status.Since
		}
		require.True(t, startOf(t, c, "notes").After(readyAt["browser"]), "notes starts when the browser server is ready")
		res, err := c.CallTool(t.Context(), "browser/browser_navigate", map[string]any{"url": site.URL})
		require.NoError(t, err)
		if filepath.Base(browser) != "none" {
			require.False(t, res.IsError, "%+v", res)
			require.Contains(t, call(t, c, "browser/browser_snapshot", nil)+fmt.Sprint(res.Content), "Hello of the site")
		}
		call(t, c, "notes/read_graph", nil)

		watch, stop := context.WithTimeout(t.Context(), 2*time.Minute)
		events := c.Watch(watch, mcpvisor.EventDown, mcpvisor.EventReady)
		require.NoError(t, syscall.Kill(before["browser"], syscall.SIGKILL))
		var seen []string
		for e := range events {
			if seen = append(seen, e.Server+" "+string(e.Kind)); e.Server == "notes" && e.Kind == mcpvisor.EventDown {
				require.True(t, e.Cause.Asked())
				require.Contains(t, e.Cause.Error(), "web")
			}
			if len(seen) == 4 {
				break
			}
		}
		stop()
		require.Equal(t, []string{"browser down", "notes down", "browser ready", "notes ready"}, seen)
	}
	status, _ := c.ServerStatus("notes")
	require.Equal(t, 0, status.Attempt, "no attempt of its own is spent")
}

// startOf is when the last start of a server began.
func startOf(t *testing.T, c *facade.Client, server string) (began time.Time) {
	t.Helper()
	found, ok := c.Inspect(server)
	require.True(t, ok)
	for _, step := range found.Steps {
		if step.To == supervisor.StateConnecting && step.From != supervisor.StateConnecting {
			began = step.Time
		}
	}
	return began
}

// A transient server that exits with 0 when it is idle rests, is listed, and wakes for a call; each time.
func TestTransient_server_that_exits_when_idle(t *testing.T) {
	s := node("fastmcp-server.mjs")(t)
	s.Env = map[string]string{"IDLE_MS": "2000"}
	c := newClient(t)
	rests := c.Watch(t.Context(), mcpvisor.EventAsleep)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "sums", Stdio: s, Transient: true, Policy: supervisor.Retry(3, 100*time.Millisecond), Timeouts: patient}))
	pids := map[int]bool{}
	for range 3 {
		awaitKind(t, rests, mcpvisor.EventAsleep)
		status, _ := c.ServerStatus("sums")
		require.Equal(t, supervisor.StateResting, status.State)
		require.Zero(t, *status.LastCause.ExitCode)
		require.NotEmpty(t, c.Tools(), "it is listed")
		require.Equal(t, "42", call(t, c, "sums/add", map[string]any{"a": 40, "b": 2}))
		status, _ = c.ServerStatus("sums")
		require.False(t, pids[status.Session.PID], "another process")
		pids[status.Session.PID] = true
	}
}
