package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/records"
)

// What happened before a restart of a run is there after it, for commands that need no run, and without secrets.
func TestRun_records(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kept")
	const planted = "84712936847"
	one := entry(mcptest.Script{})
	env := map[string]string{"API_TOKEN": planted}
	for name, value := range one["env"].(map[string]string) {
		env[name] = value
	}
	one["env"] = env
	servers := map[string]any{"one": one}
	args := []string{"run", "--http", "127.0.0.1:0", "--records", dir, "--records-arguments", "whole"}
	for round := range 2 {
		b := startRun(t, servers, args...)
		page := pageOf(b)
		b.await(" ready: ")
		if _, text := request(t, http.MethodGet, page+"api/records?kind=calls&q=echo", ""); round == 0 {
			require.JSONEq(t, `{"records": []}`, text)
		} else {
			require.Contains(t, text, "the key is ***", "of the run before")
			_, text = request(t, http.MethodGet, page+"api/records?kind=events", "")
			require.Contains(t, text, `"kind":"end"`)
		}
		b.exits(cli.ExitOK, "call", "one/echo", `{"text":"the key is `+planted+` and 5`+planted+`7"}`)
		b.exits(cli.ExitUsage, "call", "one/none", "{}")
		b.stop()
	}
	file := serversFile(t, servers)
	config, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte(`{"records": "`+dir+`", `+string(config[1:])), 0o600))
	command := func(args ...string) string {
		t.Helper()
		return toolExits(t, cli.ExitOK, append([]string{"--config", file}, args...)...)
	}
	out := command("calls", "--tool", "one/echo", "--since", "1h")
	require.Equal(t, 2, strings.Count(out, "echo"), out)
	var calls struct{ Calls []records.Record }
	require.NoError(t, json.Unmarshal([]byte(command("--json", "calls", "--server", "one")), &calls))
	require.NotEmpty(t, calls.Calls)
	require.Contains(t, string(calls.Calls[0].Arguments), "the key is ***")
	out = command("events", "--since", time.Now().Add(-time.Hour).Format(time.RFC3339))
	require.Equal(t, 2, strings.Count(out, "begins to record"), out)
	require.Equal(t, 2, strings.Count(out, "one ready: "), out)
	require.Equal(t, 2, strings.Count(out, "mcpvisor run ends"), out)
	require.Equal(t, 2, strings.Count(command("events", "--kind", "ready"), "one ready: "))
	require.NotContains(t, command("calls", "--unknown"), "echo")
	require.Regexp(t, `(?m)^SERVER +READY +FOR +DOWN +ENDS +RESTARTS +LAST END *\none +\d+\.\d\d% .* 0 +0 +-$`, command("availability"))
	require.Contains(t, command("--json", "availability", "one", "--since", "7d"), `"restarts": 0`)
	require.Contains(t, toolExits(t, cli.ExitUsage, "--config", file, "calls", "--server", "oen"), "did you mean one?")
	require.Contains(t, toolExits(t, cli.ExitUsage, "--config", file, "tools", "oen", "--stats", "--since", "1h"), "did you mean one?")
	require.Contains(t, command("audit", "verify"), "are as they were written")

	all, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	require.NoError(t, err)
	text, err := os.ReadFile(all[0])
	require.NoError(t, err)
	require.NotContains(t, string(text), planted)
	require.NoError(t, os.WriteFile(all[0], []byte(strings.Replace(string(text), "echo", "ohce", 1)), 0o600))
	require.Contains(t, toolExits(t, cli.ExitFailed, "--config", file, "audit", "verify"), all[0]+":")
	require.Contains(t, toolExits(t, cli.ExitFailed, "--config", file, "run"), all[0]+":")
}

// A mistake of the user is an error that says what to write.
func TestRecords_usage(t *testing.T) {
	file := serversFile(t, map[string]any{"one": entry(mcptest.Script{})})
	for want, args := range map[string][]string{
		`has no "records"`:     {"calls", "--unknown"},
		"leave out":            {"events", "--live", "--since", "1h"},
		"there are no records": {"calls", "--records", filepath.Join(t.TempDir(), "none")},
		"about --stats":        {"tools", "--since", "1h"},
		"neither a duration":   {"events", "--records", t.TempDir(), "--since", "yesterday"},
		"not within 1":         {"events", "--records", t.TempDir(), "--last", "0"},
	} {
		require.Contains(t, toolExits(t, cli.ExitUsage, append([]string{"--config", file}, args...)...), want)
	}
	for _, since := range []string{"7d", "24h", "2026-11-28", "2026-11-28T15:04:05Z"} {
		_, err := parseSince(since, time.Now())
		require.NoError(t, err, since)
	}
}
