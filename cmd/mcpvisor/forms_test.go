package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// formArguments make the fixture server ask for a name.
const formArguments = `{"method":"elicitation/create","params":{"mode":"form","message":"Who are you?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}`

// Without a terminal a server learns that this client asks nothing.
func TestCall_form_without_terminal(t *testing.T) {
	out, code := runTool(t, "-c", configFile(t, mcptest.Script{}), "call", "one/consult", formArguments)
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, out, "mcpvisor --fresh call asks on a terminal")
	require.NotContains(t, out, "Who are you")
}

// The error says how the user can answer a form: of a server that asks, and of one that has
// learnt that nothing is asked here.
func TestCall_form_attached(t *testing.T) {
	refuses := mcptest.ToolDef{Name: "refuses", IsError: true, Text: "the client lacks the capability Elicitation"}
	servers := map[string]any{"one": entry(mcptest.Script{Tools: []mcptest.ToolDef{{Name: "consult"}, {Name: "fail"}, refuses}})}
	b := startRun(t, servers, "run")
	b.await(" ready  ")
	for args, want := range map[string]string{
		"call one/consult " + strings.ReplaceAll(formArguments, " ", ""): "(mcpvisor --fresh call asks on a terminal what a form or a URL needs)\n",
		"call one/refuses":         "one/refuses reports an error; if it needs a form, mcpvisor --fresh call asks you on a terminal, and mcpvisor run asks nothing\n",
		"--fresh call one/refuses": "one/refuses reports an error; if it needs a form, call it on a terminal, and without --json\n",
		"call one/fail":            "one/fail reports an error\n",
	} {
		code, _, errs := b.command(strings.Split(args, " ")...)
		require.Equal(t, cli.ExitFailed, code, errs)
		require.Contains(t, errs, want, args)
	}
}

// On a terminal the user answers the form of a server during the call.
func TestCall_form_in_terminal(t *testing.T) {
	program, path, dir := buildProgram(t), configFile(t, mcptest.Script{}), shortDir(t)
	arguments := filepath.Join(dir, "arguments.json")
	require.NoError(t, os.WriteFile(arguments, []byte(strings.TrimSuffix(strings.TrimPrefix(formArguments, `{"method":"elicitation/create","params":`), "}")), 0o600))
	command := fmt.Sprintf("XDG_RUNTIME_DIR=%s %s -c %s call one/consult method=elicitation/create params:=@%s; echo ended with $?; cat", dir, program, path, arguments)
	term := newTerminal(t, dir, command)
	term.await(`server one asks: Who are you\?\nAnswer 1 question for it\? y: yes, n: decline, c: cancel:`)
	term.press("y", "Enter")
	term.await(`name \(string\):`)
	term.press("Ada", "Enter")
	screen := term.await(`ended with 0`)
	require.Regexp(t, `"name": ?"Ada"`, screen)
	require.Contains(t, screen, "one/consult answered in ")
}

// The table of status has colours on a terminal, unless the user does not want them.
func TestStatus_colors_in_terminal(t *testing.T) {
	program, path, dir := buildProgram(t), configFile(t, mcptest.Script{}), shortDir(t)
	command := fmt.Sprintf("export XDG_RUNTIME_DIR=%s; %s -c %s status; NO_COLOR=1 %s -c %s status; echo ended; cat", dir, program, path, program, path)
	term := newTerminal(t, dir, command)
	term.await(`ended`)
	colored := term.run("capture-pane", "-e", "-p", "-t", "t")
	require.Equal(t, 2, strings.Count(colored, "ready"), colored)
	require.Equal(t, 1, strings.Count(colored, "\x1b[32mready"), colored)
}

// On a terminal a command says once, dimly, that it is attached.
func TestAttach_hint_in_terminal(t *testing.T) {
	program, dir := buildProgram(t), shortDir(t)
	b := startRunIn(t, dir, map[string]any{"one": entry(mcptest.Script{})}, "run")
	b.await(" ready  ")
	command := fmt.Sprintf("export XDG_RUNTIME_DIR=%s; %s -c %s status; NO_COLOR=1 %s -c %s status; %s -c %s status 2>&1 | cat; echo ended; cat", dir, program, b.config, program, b.config, program, b.config)
	term := newTerminal(t, dir, command)
	term.await(`ended`)
	screen := term.run("capture-pane", "-e", "-p", "-t", "t")
	require.Equal(t, 2, strings.Count(screen, "attached to mcpvisor run"), screen)
	require.Equal(t, 1, strings.Count(screen, "\x1b[2mattached to mcpvisor run"), screen)
}
