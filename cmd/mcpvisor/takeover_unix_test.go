//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// log is what the runs that hosts have started have printed.
func (h *household) log() string {
	files, err := filepath.Glob(filepath.Join(h.dir, "mcpvisor", "*.log"))
	require.NoError(h.t, err)
	require.Len(h.t, files, 1)
	text, err := os.ReadFile(files[0])
	require.NoError(h.t, err)
	return string(text)
}

// requireStarted requires that hosts have started so many runs, each of which has served.
func (h *household) requireStarted(n int) {
	h.t.Helper()
	require.Equal(h.t, n, strings.Count(h.log(), "c.json, pid "), h.log())
	require.NotContains(h.t, h.log(), "another mcpvisor run", "a run was started in vain")
}

// Of hosts that find no run at the same time, one starts a run: first, and after each kill.
func TestStdio_hosts_start_one_run(t *testing.T) {
	t.Parallel()
	h := newHousehold(t, map[string]any{"fixture": entry(mcptest.Script{})})
	const hosts = 8
	var sessions [hosts]*mcp.ClientSession
	atOnce := func(f func(i int)) {
		var wg sync.WaitGroup
		for i := range hosts {
			wg.Go(func() { f(i) })
		}
		wg.Wait()
	}
	atOnce(func(i int) { sessions[i], _, _ = h.host() })
	for n := 1; n <= 3; n++ {
		atOnce(func(i int) { echo(t, sessions[i], "all") })
		h.requireStarted(n)
		kill(t, h.run())
	}
}

// After an upgrade that removes the program of a host's command, the host starts a run by the path that it was
// started by, or else by PATH.
func TestStdio_after_an_upgrade(t *testing.T) {
	t.Parallel()
	for name, upgrade := range map[string]func(t *testing.T, bin, v2 string){
		"link": func(t *testing.T, bin, v2 string) {
			t.Helper()
			require.NoError(t, os.Remove(filepath.Join(bin, "mcpvisor")))
			require.NoError(t, os.Symlink(v2, filepath.Join(bin, "mcpvisor")))
		},
		"PATH": func(t *testing.T, bin, v2 string) {
			t.Helper()
			require.NoError(t, os.RemoveAll(bin))
			require.NoError(t, os.MkdirAll(filepath.Join(filepath.Dir(bin), "path"), 0o700))
			require.NoError(t, os.Symlink(v2, filepath.Join(filepath.Dir(bin), "path", "mcpvisor")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHousehold(t, map[string]any{"fixture": entry(mcptest.Script{})})
			h.t = t
			dir, built := t.TempDir(), h.program
			bin, v1 := filepath.Join(dir, "bin"), filepath.Join(dir, "v1")
			require.NoError(t, os.Mkdir(bin, 0o700))
			program, err := os.ReadFile(built)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(v1, program, 0o700)) //nolint:gosec // it is run
			h.program = filepath.Join(bin, "mcpvisor")
			require.NoError(t, os.Symlink(v1, h.program))
			h.env = []string{"PATH=" + filepath.Join(dir, "path") + ":" + os.Getenv("PATH")}
			session, _, _ := h.host()
			echo(t, session, "before")

			upgrade(t, bin, built)
			require.NoError(t, os.Remove(v1))
			kill(t, h.run())
			echo(t, session, "after")
		})
	}
}
