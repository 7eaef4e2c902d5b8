//go:build unix

package main

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A run lists a lazy server as it was in the run before, without a process; the first call starts it.
func TestRun_lists_a_lazy_server_after_a_restart(t *testing.T) {
	dir, server := recorded(t)
	server["start"], server["idle_stop"] = "lazy", "1h"
	h := newHousehold(t, map[string]any{"one": server})
	t.Setenv("XDG_RUNTIME_DIR", h.dir)
	b := &background{t: t, config: h.file}
	for before, end := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGTERM} {
		u := h.user()
		await(t, u.out, "one ")
		b.exits(cli.ExitOK, "--wait", "ready", "status")
		if before == 0 {
			require.Eventually(t, func() bool { return len(mcptest.PIDs(dir)) == 1 && b.asleep("one") }, time.Minute, 5*time.Millisecond, "for its lists")
		}
		out, _ := b.exits(cli.ExitOK, "--wait", "1m", "tools")
		require.Contains(t, out, "one/echo")
		require.Len(t, mcptest.PIDs(dir), before+1)
		out, _ = b.exits(cli.ExitOK, "call", "one/echo", `{"text":"hello"}`)
		require.Equal(t, "hello", out)
		require.Len(t, mcptest.PIDs(dir), before+2)
		u.end(end)
	}
}
