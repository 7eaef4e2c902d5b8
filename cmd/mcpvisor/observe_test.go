package main

import (
	"encoding/json"
	"regexp"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/attach"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// attention says what top says under this title: what, of which server, and what to do.
func TestAttention(t *testing.T) {
	b := startRun(t, goodAndBad(), "run")
	b.await("  bad   evicted")
	out, errs := b.exits(cli.ExitUnavailable, "attention")
	require.Empty(t, errs)
	require.Regexp(t, `^error +bad: .*exit status 7.* \(\S+ ago\)\n(         .*\n)*         do: .+\n`, out)
	out, _ = b.exits(cli.ExitUnavailable, "--json", "attention")
	var answer struct{ Attention []api.Attention }
	require.NoError(t, json.Unmarshal([]byte(out), &answer))
	require.Equal(t, "bad", answer.Attention[0].Server)
	require.Equal(t, api.AttentionEvicted, answer.Attention[0].Kind)
	b.exits(cli.ExitOK, "stop", "bad")
	out, _ = b.exits(cli.ExitOK, "attention") // that is no error any longer
	require.Regexp(t, `^warning  bad: stopped by an operator; has ended 3 times`, out)
}

func TestAttention_without_trouble(t *testing.T) {
	out, _ := startReady(t, map[string]any{"one": entry(mcptest.Script{})}, "run").exits(cli.ExitOK, "attention")
	require.Equal(t, "nothing needs attention; 1 server\n", out)
}

// clients shows the hosts, and what they may call.
func TestClients(t *testing.T) {
	b := startReady(t, map[string]any{"one": entry(mcptest.Script{})}, "run")
	out, _ := b.exits(cli.ExitOK, "clients")
	require.Regexp(t, `^no client within 15 minutes`, out)
	conn, err := attach.DialMCP(t.Context(), b.config, "")
	require.NoError(t, err)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "editor", Version: "2"}, nil).Connect(t.Context(), &mcp.IOTransport{Reader: conn, Writer: conn}, nil)
	require.NoError(t, err)
	_, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "one__echo", Arguments: map[string]any{"text": "x"}})
	require.NoError(t, err)
	out, _ = b.exits(cli.ExitOK, "clients")
	require.Regexp(t, `^CLIENT +STATE .*\neditor 2 +(idle|1 stream) +\d+ +1 +0 +0 +\S+ +stdio, \S+\n\nMAY CALL +TOOLS .*\neverything +\d+ +\d+ +\d+ +0 +one\n$`, out)
	out, _ = b.exits(cli.ExitOK, "--json", "clients")
	var answer api.Clients
	require.NoError(t, json.Unmarshal([]byte(out), &answer))
	require.Equal(t, "editor", answer.Sessions[0].Name)
	_ = session.Close() // the connection is closed twice
}

// calls has those in flight and those that have ended, with what became of them; events has what happened to servers.
func TestCalls_and_events(t *testing.T) {
	_, server := recorded(t, mcptest.Fault{At: mcptest.StageCall, Tool: "echo", Do: mcptest.ActionExit, Code: 3})
	b := startReady(t, map[string]any{"one": server, "two": entry(mcptest.Script{})}, "run")
	b.exits(cli.ExitFailed, "call", "one/echo", "text=x")
	b.exits(cli.ExitOK, "call", "two/add", "a=1", "b=2")
	c, _, err := attach.Find(t.Context(), b.config)
	require.NoError(t, err)
	defer c.Close()
	ended := make(chan int, 1)
	go func() {
		code, _, _ := b.command("call", "two/hang")
		ended <- code
	}()
	require.Eventually(t, func() bool {
		calls, err := c.Calls(t.Context(), 0)
		return err == nil && len(calls.InFlight) == 1
	}, time.Minute, 5*time.Millisecond)
	out, _ := b.exits(cli.ExitOK, "calls")
	require.Regexp(t, `^ENDED +TOOK .*\n- +\S+ +two/hang +in flight +-\n\S+ +\S+ +two/add +ok +mcpvisor call\n\S+ +\S+ +one/echo +crashed, may have been executed +mcpvisor call\n$`, out)
	out, _ = b.exits(cli.ExitOK, "calls", "--server", "one")
	require.NotContains(t, out, "two/")
	out, _ = b.exits(cli.ExitOK, "--json", "calls", "--server", "one")
	var calls api.Calls
	require.NoError(t, json.Unmarshal([]byte(out), &calls))
	require.Len(t, calls.Recent, 1)
	require.Empty(t, calls.InFlight)
	b.exits(cli.ExitOK, "restart", "two")
	require.Equal(t, cli.ExitFailed, <-ended)

	out, _ = b.exits(cli.ExitOK, "events", "--server", "one")
	require.Regexp(t, `(?m)^\S+ \S+ +one registered.*\n\S+ \S+ +one (down|ended).*exit status 3`, out)
	require.NotContains(t, out, "two")
	out, _ = b.exits(cli.ExitOK, "--json", "events", "-n", "1")
	var events api.EventSummaries
	require.NoError(t, json.Unmarshal([]byte(out), &events))
	require.Len(t, events.Summaries, 1)
	_, errs := b.exits(cli.ExitUsage, "events", "--server", "oen")
	require.Contains(t, errs, "did you mean one")
}

// tools --stats has all tools that are listed, and what became of their calls, in the order that is asked for.
func TestTools_stats(t *testing.T) {
	b := startReady(t, map[string]any{"one": entry(mcptest.Script{})}, "run")
	b.exits(cli.ExitOK, "call", "one/echo", "text=x")
	b.exits(cli.ExitOK, "call", "one/echo", "text=y")
	b.exits(cli.ExitFailed, "call", "one/fail")
	first := regexp.MustCompile(`\A.*\n(\S+)`)
	for sort, want := range map[string]string{"calls": "one/echo", "failures": "one/fail", "name": "one/add"} {
		out, _ := b.exits(cli.ExitOK, "tools", "--stats", "--sort", sort)
		require.Equal(t, want, first.FindStringSubmatch(out)[1], out)
	}
	out, _ := b.exits(cli.ExitOK, "tools", "--stats")
	require.Regexp(t, `(?m)^one/echo +2 +0 +0 +0 +0 +\S+ +\S+ +\S+ +[1-9]\d*$`, out)
	require.Regexp(t, `(?m)^one/add +0 +0 +0 +0 +0 +0s +0s +0s +[1-9]\d*$`, out)
	out, _ = b.exits(cli.ExitOK, "tools", "one/fail", "--stats")
	require.Regexp(t, `^TOOL .*\none/fail +1 +1 +0 +0 .*\n$`, out)
	_, errs := b.exits(cli.ExitUsage, "tools", "one/fial", "--stats")
	require.Contains(t, errs, "did you mean one/fail")

	out, _ = b.exits(cli.ExitOK, "--json", "tools", "one", "--stats", "--sort", "tokens")
	var answer struct{ Tools []map[string]any }
	require.NoError(t, json.Unmarshal([]byte(out), &answer))
	last := 1e9
	for _, tool := range answer.Tools {
		require.LessOrEqual(t, tool["tokens"], last)
		last = tool["tokens"].(float64)
		for _, key := range []string{"calls", "toolErrors", "failed", "failures", "unknown", "refused", "p50Ns", "p95Ns"} {
			require.Contains(t, tool, key, "a zero is not left out")
		}
	}
	_, errs = b.exits(cli.ExitUsage, "tools", "--sort", "p95")
	require.Contains(t, errs, "--sort is about --stats")
}
