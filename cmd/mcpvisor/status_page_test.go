package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// crashing is an entry of a server that says why it does not start. It is given up after two retries.
func crashing() map[string]any {
	return entry(mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageStart, Do: mcptest.ActionStderrLine, Text: "fatal: " + strings.Repeat("no license ", 20) + "for this host"},
		{At: mcptest.StageStart, Do: mcptest.ActionExit, Code: 7}}})
}

// The status of one server is a page: the whole cause, what to do, its last stderr, and its ends.
func TestStatus_of_one_server(t *testing.T) {
	b := startRun(t, map[string]any{"good": entry(mcptest.Script{}), "bad": crashing(), "odd": map[string]any{"comand": "x"}}, "run")
	b.await("  bad   evicted")
	out, _ := b.exits(cli.ExitUnavailable, "status", "bad")
	require.Regexp(t, `^bad  evicted, not ready for \S+: given up, not tried again by itself\n`, out)
	require.Regexp(t, `(?m)^cause      fatal: (no license ){20}for this host .*exit status 7`, out)
	require.Regexp(t, `(?m)^do         .`, out)
	require.Regexp(t, `(?m)^policy     retry 2×.*; 2 of 2 attempts spent$`, out)
	require.Regexp(t, `(?m)^STDERR .*\n  fatal: no license `, out)
	require.Regexp(t, `(?m)^ENDS .*\n +\S+ ago  start 3    ran +\S+  never ready: fatal.*\n.*start 2 .*\n.*start 1 `, out)

	out, _ = b.exits(cli.ExitOK, "status", "good")
	require.Regexp(t, `^good  ready for \S+\n`, out)
	require.NotContains(t, out, "cause")
	out, _ = b.exits(cli.ExitUnavailable, "status", "odd")
	require.Regexp(t, `^odd  not configured\ncause      .*"comand"`, out)
	out, _ = b.exits(cli.ExitUnavailable, "status", "good", "bad")
	require.Regexp(t, `^SERVER +STATE `, out)

	out, _ = b.exits(cli.ExitUnavailable, "--json", "status", "bad")
	var answer struct {
		Servers   []struct{ Name string }
		Attention []struct{ Server string }
		Stderr    struct{ Lines []string }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &answer))
	require.Equal(t, "bad", answer.Servers[0].Name)
	require.Equal(t, "bad", answer.Attention[0].Server)
	require.Contains(t, answer.Stderr.Lines[0], "no license")
}

// The lines of a process that has ended are printed while the next one has written none.
func TestLogs_of_an_earlier_process(t *testing.T) {
	_, server := recorded(t, mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionStderrLine, Text: "out of license", Starts: []int{1}},
		mcptest.Fault{At: mcptest.StageCall, Do: mcptest.ActionExit, Code: 7, Starts: []int{1}})
	b := startRun(t, map[string]any{"one": server, "odd": map[string]any{"comand": "x"}}, "run")
	b.await("(1 of 2 ready)")
	b.exits(cli.ExitFailed, "call", "one/echo", "text=x")
	b.await("(1 of 2 ready)")
	out, errs := b.exits(cli.ExitOK, "logs", "one")
	require.Equal(t, "out of license\n", out)
	require.Regexp(t, `^--- the last lines of process \d+, which ended \S+ ago ---\n$`, errs)
	_, errs = b.exits(cli.ExitUsage, "logs", "odd")
	require.Contains(t, errs, "server odd is not configured: ")
}
