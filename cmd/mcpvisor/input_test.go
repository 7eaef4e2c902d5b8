package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// The user of a terminal is asked only for the inputs of the servers that a command uses.
func TestCall_asks_for_its_server_in_terminal(t *testing.T) {
	program, dir := buildProgram(t), shortDir(t)
	mine := entry(mcptest.Script{})
	mine["env"].(map[string]string)["MINE"] = "${input:mine}"
	path := serversFile(t, map[string]any{"other": map[string]any{"command": "x", "args": []string{"${input:other}"}}, "one": mine})
	term := newTerminal(t, dir, fmt.Sprintf("XDG_RUNTIME_DIR=%s %s -c %s call one/echo text=hello; echo ended with $?; cat", dir, program, path))
	term.await(`mine \(or set MCPVISOR_INPUT_MINE\):`)
	term.press("a", "Enter")
	screen := term.await(`ended with 0`)
	require.Contains(t, screen, "hello")
	require.NotContains(t, screen, "MCPVISOR_INPUT_OTHER")
}

// A tool without a server names all servers, also those that lack something, and asks nothing.
func TestCall_names_of_servers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"servers": {"one": {"command": "${input:x}"}, "two": {"comand": "x"}, "off": {"disabled": true}}}`), 0o600))
	out, code := runTool(t, "-c", path, "call", "echo")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, out, "name tools as server/tool, as in one/echo (servers: one, two)\n")
}
