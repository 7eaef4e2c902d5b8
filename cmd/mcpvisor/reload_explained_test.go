package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/attach"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A reload says which keys of an entry differ, without secrets, and what became of the calls: the run, reload, the events,
// and the page of the server, which keeps what happened before.
func TestReload_explains(t *testing.T) {
	_, server := recorded(t, mcptest.Fault{At: mcptest.StageCall, Tool: "echo", Do: mcptest.ActionExit, Code: 3})
	env, ok := server["env"].(map[string]string)
	require.True(t, ok)
	env["TOKEN"] = "the-secret-of-before"
	b := startReady(t, map[string]any{"erp": server, "other": entry(mcptest.Script{})}, "run")
	b.exits(cli.ExitFailed, "call", "erp/echo", "text=x")
	b.exits(cli.ExitOK, "--wait", "ready", "status")
	c, _, err := attach.Find(t.Context(), b.config)
	require.NoError(t, err)
	defer c.Close()
	ended := make(chan int, 1)
	go func() {
		code, _, _ := b.command("call", "erp/slow_progress", `{"steps":60,"ms":10}`)
		ended <- code
	}()
	require.Eventually(t, func() bool {
		calls, err := c.Calls(t.Context(), 0)
		return err == nil && len(calls.InFlight) == 1 && calls.InFlight[0].Target == "slow_progress"
	}, time.Minute, 5*time.Millisecond)

	env["TOKEN"] = "the-secret-of-later"
	server["timeouts"] = map[string]any{"call": "3m"}
	b.write(map[string]any{"erp": server, "other": entry(mcptest.Script{})})
	why := "env.TOKEN changed, timeouts.call 3m added"
	require.Contains(t, b.await("  reload: "), "  reload: replace erp ("+why+"); 1 unchanged")
	require.Contains(t, b.await("  erp: "), "  erp: "+why+"; replaced, 1 call drained")
	require.Equal(t, cli.ExitOK, <-ended)
	b.exits(cli.ExitOK, "--wait", "ready", "status")

	happened, err := c.Summaries(t.Context(), 0, "erp")
	require.NoError(t, err)
	require.Equal(t, "erp registered again, with another specification: "+why, happened.Summaries[len(happened.Summaries)-1].Text)
	out, _ := b.exits(cli.ExitOK, "status", "erp")
	require.Regexp(t, `\nEARLIER .*\n +\S+ ago  erp registered again, with another specification: `+why+`\n +\S+ ago  erp down: .*exit status 3`, out)

	server["timeouts"] = map[string]any{"call": "2m"}
	b.write(map[string]any{"erp": server, "other": entry(mcptest.Script{})})
	require.Contains(t, b.await("  erp: "), "  erp: timeouts.call 3m → 2m; replaced")
	delete(server, "timeouts")
	out, _ = b.exits(cli.ExitOK, "reload") // nothing has changed since
	require.Regexp(t, `^2 servers unchanged`, out)
	require.NotContains(t, b.stop(), "the-secret")
}
