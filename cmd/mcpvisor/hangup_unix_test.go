//go:build unix

package main

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

func TestRun_reloads_at_SIGHUP(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte("before"), 0o600))
	server := entry(mcptest.Script{})
	env, ok := server["env"].(map[string]string)
	require.True(t, ok)
	env["SECRET"] = "${file:" + file + "}"
	b := startRun(t, map[string]any{"one": server}, "run")
	b.await(" ready  ")
	require.NoError(t, os.WriteFile(file, []byte("after"), 0o600))
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	b.await("  reload: replace one")
	b.await(" ready  ")
	b.stop()
	require.Zero(t, b.code)
	require.Empty(t, b.errs.String())
}

// A run does not outlive its terminal, although SIGHUP reloads it.
func TestRun_ends_with_its_terminal(t *testing.T) {
	dir := shortDir(t)
	program := filepath.Join(t.TempDir(), "mcpvisor") // TestMain runs main under this name
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, program))
	state, server := recorded(t)
	path := serversFile(t, map[string]any{"one": server})
	term := newTerminal(t, dir, "GORACE=atexit_sleep_ms=0 XDG_RUNTIME_DIR="+dir+" exec "+program+" --config "+path+" run")
	term.run("new-session", "-d", "-s", "other", "-n", "other", "cat") // so that tmux does not end; "t" must not be a prefix of the window's name
	term.await(" ready  ")
	pids := mcptest.PIDs(state)
	require.Len(t, pids, 1)
	term.run("kill-session", "-t", "t")
	require.Eventually(t, func() bool { return errors.Is(syscall.Kill(pids[0], 0), syscall.ESRCH) }, time.Minute, 10*time.Millisecond)
}
