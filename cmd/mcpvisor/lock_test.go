package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/lock"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// described is a server with one tool.
func described(text string) map[string]any {
	return entry(mcptest.Script{Tools: []mcptest.ToolDef{{Name: "read", Description: text}, {Name: "same"}}})
}

// A lock file is made, shows what differs, and is changed by an approval alone: of what was looked at.
func TestLock(t *testing.T) {
	file := serversFile(t, map[string]any{"a": described("Reads."), "b": entry(mcptest.Script{})})
	path := filepath.Join(filepath.Dir(file), lock.FileName)
	write := func(servers map[string]any) {
		require.NoError(t, os.WriteFile(file, []byte(jsonText(t, map[string]any{"lock": "enforce", "mcpServers": servers})), 0o600))
	}
	lockFile := func() string {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(text)
	}
	write(map[string]any{"a": described("Reads."), "b": entry(mcptest.Script{})})
	out, _ := runTool(t, "--config", file, "tools", "a")
	require.NotContains(t, out, "read", "without a lock file nothing is listed")
	toolExits(t, cli.ExitFailed, "--config", file, "lock", "diff")
	toolExits(t, cli.ExitOK, "--config", file, "lock")
	first := lockFile()
	require.Contains(t, first, `"Reads."`)
	toolExits(t, cli.ExitOK, "--config", file, "lock", "diff")
	require.Contains(t, toolExits(t, cli.ExitOK, "--config", file, "tools"), "a/read")

	write(map[string]any{"a": described("Reads, and sends.")})
	out = toolExits(t, cli.ExitOK, "--config", file, "tools")
	require.Contains(t, out, "a/same")
	require.NotContains(t, out, "a/read")
	require.Contains(t, toolExits(t, cli.ExitOK, "--config", file, "status"), `"read" differs from the lock file in description`)
	require.Contains(t, toolExits(t, cli.ExitUsage, "--config", file, "call", "a/read"), "differs from the lock file in description")
	require.Contains(t, toolExits(t, cli.ExitFailed, "--config", file, "lock"), "a differ, and were left as they are")
	require.NotContains(t, lockFile(), `"b": {`, "the configuration has it no more")
	require.Contains(t, lockFile(), `"Reads."`)
	out = toolExits(t, cli.ExitFailed, "--json", "--config", file, "lock", "diff")
	var answer struct{ Differences []difference }
	require.NoError(t, json.Unmarshal([]byte(out), &answer), out)
	require.Equal(t, []lock.ValueChange{{Path: "description", Was: `"Reads."`, Is: `"Reads, and sends."`}}, answer.Differences[0].Differences[0].Values)

	write(map[string]any{"a": described("Reads, and sends all.")}) // after the look
	before := lockFile()
	require.Contains(t, toolExits(t, cli.ExitFailed, "--config", file, "lock", "approve", "a", "--expect", answer.Differences[0].Digest), "nothing was approved")
	require.Equal(t, before, lockFile())
	toolExits(t, cli.ExitOK, "--config", file, "lock", "approve", "a")
	toolExits(t, cli.ExitOK, "--config", file, "lock", "diff")
	require.Contains(t, toolExits(t, cli.ExitOK, "--config", file, "tools"), "a/read")

	require.NoError(t, os.WriteFile(path, []byte(lockFile()[1:]), 0o600))
	require.Contains(t, toolExits(t, cli.ExitUsage, "--config", file, "lock"), "it is damaged")
	require.NotContains(t, toolExits(t, cli.ExitOK, "--config", file, "tools"), "a/same")
	require.NoError(t, os.WriteFile(file, []byte(`{"lock": "enforced", "mcpServers": {"a": {"command": "x"}}}`), 0o600))
	require.Contains(t, toolExits(t, cli.ExitUsage, "--config", file, "config"), `"lock" is not one of ["off" "warn" "enforce"]`)
}

// A run follows its lock file: what is approved is listed without a restart, and what differs from then on is withheld.
func TestRun_follows_its_lock_file(t *testing.T) {
	b := startRun(t, map[string]any{"a": described("Reads.")}, "run")
	b.await("(1 of 1 ready)")
	b.drain()
	write := func(mode, text string) {
		b.writeText(jsonText(t, map[string]any{"lock": mode, "mcpServers": map[string]any{"a": described(text)}}))
	}
	listed := func(want bool) {
		t.Helper()
		require.Eventually(t, func() bool {
			_, out, _ := b.command("--json", "tools")
			return want == (len(out) > 0 && json.Valid([]byte(out)) && strings.Contains(out, `"a/read"`))
		}, time.Minute, 10*time.Millisecond)
	}
	listed(true)
	write("enforce", "Reads.")
	b.exits(cli.ExitOK, "reload")
	listed(false)
	pids, _ := b.status(cli.ExitOK)
	b.exits(cli.ExitOK, "lock")
	listed(true)
	after, _ := b.status(cli.ExitOK)
	require.Equal(t, pids.pids(), after.pids(), "nothing was restarted")
	write("enforce", "Reads, and sends.")
	listed(false)
	path := filepath.Join(filepath.Dir(b.config), lock.FileName)
	approved, err := os.ReadFile(path)
	require.NoError(t, err)
	write("enforce", "Reads.")
	listed(true)
	b.writeText(`{"mcpServers": `) // a broken configuration leaves the servers as they are, and the lock file counts
	b.exits(cli.ExitUsage, "reload")
	require.NoError(t, os.WriteFile(path, []byte("{}"), 0o600))
	listed(false)
	require.NoError(t, os.WriteFile(path, approved, 0o600))
	listed(true)
	write("warn", "Reads, and sends.")
	listed(true)
	b.interrupt()
}
