package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// formArguments make the fixture server ask for a name.
const formArguments = `{"method":"elicitation/create","params":{"mode":"form","message":"Who are you?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}`

// Without a terminal a server learns that this client asks nothing.
func TestCall_form_without_terminal(t *testing.T) {
	out, code := runTool(t, "-c", configFile(t, mcptest.Script{}), "call", "one/consult", formArguments)
	require.Equal(t, exitFailed, code)
	require.Contains(t, out, "mcpvisor --fresh call asks on a terminal")
	require.NotContains(t, out, "Who are you")
}

// On a terminal the user answers the form of a server during the call.
func TestCall_form_in_terminal(t *testing.T) {
	tmux, err := exec.LookPath("tmux")
	if err != nil {
		t.Skip("tmux is not installed")
	}
	program, path, dir := buildProgram(t), configFile(t, mcptest.Script{}), shortDir(t)
	arguments := filepath.Join(dir, "arguments.json")
	require.NoError(t, os.WriteFile(arguments, []byte(strings.TrimSuffix(strings.TrimPrefix(formArguments, `{"method":"elicitation/create","params":`), "}")), 0o600))
	terminal := func(args ...string) string {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute) // the cleanup needs it, too
		defer cancel()
		out, err := exec.CommandContext(ctx, tmux, append([]string{"-f", "/dev/null", "-S", filepath.Join(dir, "tmux")}, args...)...).CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	command := fmt.Sprintf("XDG_RUNTIME_DIR=%s %s -c %s call one/consult method=elicitation/create params:=@%s; echo ended with $?; cat", dir, program, path, arguments)
	terminal("new-session", "-d", "-s", "t", "-x", "100", "-y", "24", command)
	t.Cleanup(func() { terminal("kill-server") })
	await := func(pattern string) (screen string) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); !regexp.MustCompile(pattern).MatchString(screen); {
			require.True(t, time.Now().Before(deadline), "%s is not shown in\n%s", pattern, screen)
			screen = terminal("capture-pane", "-p", "-t", "t")
		}
		return screen
	}
	await(`server one asks: Who are you\?\nAnswer 1 question for it\? y: yes, n: decline, c: cancel:`)
	terminal("send-keys", "-t", "t", "y", "Enter")
	await(`name \(string\):`)
	terminal("send-keys", "-t", "t", "Ada", "Enter")
	screen := await(`ended with 0`)
	require.Regexp(t, `"name": ?"Ada"`, screen)
	require.Contains(t, screen, "one/consult answered in ")
}
