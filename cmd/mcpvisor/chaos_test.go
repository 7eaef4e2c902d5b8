//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/mcptest/chaos"
	"github.com/mcpvisor/mcpvisor/test/hostile"
)

// stormServers writes a configuration of servers that bear a storm, or do not.
func stormServers(t *testing.T) (path string) {
	t.Helper()
	tools := []mcptest.ToolDef{{Name: "look", As: "echo", Annotations: json.RawMessage(`{"readOnlyHint":true}`)}, {Name: "crash"}}
	scripted := func(faults ...mcptest.Fault) *mcpvisor.Stdio {
		return mcptest.Stdio(mcptest.Script{Tools: tools, StateDir: t.TempDir(), Faults: faults})
	}
	restarts := make([]int, 100)
	for i := range restarts {
		restarts[i] = i + 2
	}
	orphans, ok := hostile.MisbehaviourNamed("process/grandchild-detached")
	require.True(t, ok)
	entries := map[string]any{}
	for name, stdio := range map[string]*mcpvisor.Stdio{
		"good":    scripted(),
		"lost":    scripted(mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionExit, Code: 3, Starts: restarts}),
		"orphans": orphans.Stdio(t.TempDir()),
	} {
		entries[name] = map[string]any{"command": stdio.Command, "args": stdio.Args, "env": stdio.Env, "retry": "none"}
	}
	data, err := json.Marshal(map[string]any{"mcpServers": entries})
	require.NoError(t, err)
	path = filepath.Join(t.TempDir(), "storm.json")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

func TestChaos(t *testing.T) {
	path := stormServers(t)
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"-c", path, "chaos", "--duration", "1500ms", "--seed", "7",
		"--tool", "orphans/" + hostile.BadTool, "--args", `{"n":1}`}, strings.NewReader(""), &out, &errs)
	require.Equal(t, cli.ExitFailed, code, errs.String())
	require.Contains(t, errs.String(), "a storm of 1.5s for copies of 3 servers")
	for server, want := range map[string][]string{
		"lost":    {"did not come back: after ", "is evicted: server process ended with exit status 3"},
		"orphans": {"ended by itself: server process ended with exit status 3", " of them ran on after the server had ended"},
	} {
		verdict := verdictOf(t, out.String(), server)
		require.True(t, strings.HasPrefix(verdict, "FAIL"), verdict)
		for _, text := range want {
			require.Contains(t, verdict, text)
		}
		findings := 1
		if server == "orphans" {
			findings = 2
		}
		require.Equal(t, findings, strings.Count(verdict, "finding"), verdict)
	}
	good := verdictOf(t, out.String(), "good")
	require.True(t, strings.HasPrefix(good, "ok"), good)
	for _, text := range []string{"faults    ", " answered", "tools     good/look"} {
		require.Contains(t, good, text)
	}
	require.True(t, strings.HasSuffix(out.String(), "1 of 3 servers passed; seed 7: --seed 7 repeats these faults\n"), out.String())
	require.NotContains(t, out.String(), "crash,", "a tool was called that does not say it is read-only")
}

// verdictOf returns the lines about one server.
func verdictOf(t *testing.T, out, server string) string {
	t.Helper()
	for _, block := range strings.SplitAfter(strings.ReplaceAll(strings.ReplaceAll(out, "\nok ", "\n\x00ok "), "\nFAIL", "\n\x00FAIL"), "\x00") {
		if first, _, _ := strings.Cut(block, "\n"); strings.HasSuffix(first, "  "+server) {
			return block
		}
	}
	t.Fatalf("no verdict about %s in:\n%s", server, out)
	return ""
}

func TestChaos_exit_codes(t *testing.T) {
	path := serversFile(t, map[string]any{"one": entryWith(nil, mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionExit, Code: 7})})
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"chaos", "--duration", "1s"}, cli.ExitUnavailable, "finding   did not start: "},
		{[]string{"chaos", "two"}, cli.ExitUsage, `has no server "two"`},
		{[]string{"chaos", "--duration", "0s"}, cli.ExitUsage, "is not more than 0"},
		{[]string{"chaos", "--flood", "1001"}, cli.ExitUsage, "not between 1 and 1000"},
		{[]string{"chaos", "--args", "{}"}, cli.ExitUsage, "each --args needs a --tool"},
		{[]string{"chaos", "--tool", "two/echo"}, cli.ExitUsage, `tool "two/echo" is of no server here`},
		{[]string{"chaos", "--tool", "one/echo", "--args", "5"}, cli.ExitUsage, "not a JSON object"},
	} {
		out, code := runTool(t, append([]string{"-c", path}, c.args...)...)
		require.Equal(t, c.code, code, "%v: %s", c.args, out)
		require.Contains(t, out, c.want)
		require.NotContains(t, out, "a storm of")
	}
}

// A tool that its server does not list is told before the storm.
func TestChaos_unknown_tool(t *testing.T) {
	out := toolExits(t, cli.ExitUsage, "-c", stormServers(t), "chaos", "--tool", "good/loook", "good")
	require.Contains(t, out, `server "good" lists no tool "good/loook"; did you mean good/look?`)
	require.NotContains(t, out, "a storm of")
}

// --wait bounds a start. What to do about a start that failed is not cut, however much the
// server says.
func TestChaos_failed_starts(t *testing.T) {
	path := serversFile(t, map[string]any{"one": entryWith(nil, mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionHangAll})})
	out := toolExits(t, cli.ExitUnavailable, "-c", path, "--wait", "200ms", "chaos", "--duration", "1s")
	require.Contains(t, out, "did not start: it was not ready after 200ms\n")
	require.Contains(t, out, "advice    raise --wait if it is slow to start\n")
	require.Contains(t, out, "0 of 1 server passed; seed ")

	long := strings.Repeat("a long complaint ", 40)
	path = serversFile(t, map[string]any{"one": entryWith(nil, mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionStderrLine, Text: long}, mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionExit, Code: 7})})
	out = toolExits(t, cli.ExitUnavailable, "-c", path, "chaos", "--duration", "1s")
	require.Contains(t, out, "(exit status 7)\n")
	require.Contains(t, out, "      stderr    a long complaint")
	require.Contains(t, out, "      advice    ")

	out = toolExits(t, cli.ExitUnavailable, "-c", path, "--json", "chaos", "--duration", "1s", "--seed", "3")
	var report chaos.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report), out)
	require.Equal(t, chaos.ReportSchema, report.Schema)
	require.EqualValues(t, 3, report.Seed)
	require.Len(t, report.Servers, 1)
	require.False(t, report.Servers[0].Passed)
}

func TestChaos_json(t *testing.T) {
	out := toolExits(t, cli.ExitOK, "-c", stormServers(t), "--json", "chaos", "--duration", "1500ms", "--seed", "3", "good")
	var report chaos.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report), out)
	require.Equal(t, chaos.ReportSchema, report.Schema)
	require.EqualValues(t, 3, report.Seed)
	require.Len(t, report.Servers, 1)
	require.True(t, report.Servers[0].Passed)
	require.Positive(t, report.Servers[0].Calls.OK)
}
