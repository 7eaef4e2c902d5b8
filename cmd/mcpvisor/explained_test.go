package main

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A command that is attached names the problem of an entry that is no server, and a wait that
// ends at once prints what there is.
func TestAttach_explains(t *testing.T) {
	b := startRun(t, map[string]any{"one": entry(mcptest.Script{}), "bad": map[string]any{"args": []string{"x"}}}, "run")
	b.await(" ready  ")
	for _, args := range [][]string{{"call", "bad/x"}, {"read", "bad", "x://1"}, {"prompt", "bad", "p"}} {
		code, _, errs := b.command(args...)
		require.Equal(t, cli.ExitUnavailable, code, errs)
		require.Regexp(t, `: server "bad" has neither "command" nor "url"; .*c\.json:1\)`, errs)
	}
	_, out, errs := b.command("--wait", "any", "status", "--timeout", "1ns")
	require.Contains(t, out, "not configured")
	require.NotContains(t, errs, "canceled")

	code, _, errs := b.command("call", "one/hang", "--timeout", "50ms")
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, errs, "raise --timeout")
	require.NotContains(t, errs, `"timeouts"`)
	for _, timeout := range []string{"0", "0s", "5", "-1s"} {
		code, _, errs = b.command("call", "one/hang", "--timeout="+timeout)
		require.Equal(t, cli.ExitUsage, code)
		require.Contains(t, errs, "must be a duration such as 30s, and more than 0")
	}
}

// tools declares to servers what call declares: that it can ask the user of a terminal. Some
// servers list other tools for that.
func TestTools_declare_forms(t *testing.T) {
	inv := &invocation{servers.Opener{Invocation: cli.Invocation{Context: t.Context(), In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Sources: cli.NewSources([]string{configFile(t, mcptest.Script{})})}}}
	require.NoError(t, (&toolsCmd{}).Run(inv))
	require.True(t, inv.Forms)
}
