package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/commandline"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// userFile is how help names the user's file in tests.
const userFile = "~/.config/mcpvisor/mcp.json"

// candidates returns what a shell gets for a line.
func candidates(t *testing.T, words ...string) []string {
	t.Helper()
	var out, errs strings.Builder
	require.Zero(t, run(t.Context(), append([]string{completeName, "words"}, words...), strings.NewReader(""), &out, &errs))
	require.Empty(t, errs.String())
	var values []string
	for line := range strings.Lines(out.String()) {
		value, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		values = append(values, value)
	}
	return values
}

// Names come from a running run; without one from the configuration. No server is started for
// them.
func TestComplete_names(t *testing.T) {
	dir, server := recorded(t)
	servers := map[string]any{"one": server, "odd": map[string]any{"command": "x", "args": []string{"${MCPVISOR_TEST_NOT_SET}"}}}
	b := startReady(t, servers, "run")
	require.Equal(t, []string{"one/echo", "one/env"}, candidates(t, "-c", b.config, "call", "one/e"))
	require.Equal(t, []string{"text="}, candidates(t, "-c", b.config, "call", "one/echo", ""))
	require.Equal(t, []string{"one"}, candidates(t, "-c", b.config, "restart", ""))
	b.stop()
	started := len(mcptest.PIDs(dir))

	require.Equal(t, []string{"one", "odd"}, candidates(t, "-c", b.config, "status", ""))
	require.Equal(t, []string{"one/"}, candidates(t, "-c", b.config, "call", "one"))
	require.Empty(t, candidates(t, "-c", b.config, "call", "one/echo", ""))
	require.Empty(t, candidates(t, "-c", filepath.Join(t.TempDir(), "absent.json"), "call", ""))
	require.Len(t, mcptest.PIDs(dir), started, "no server was started")

	require.Equal(t, []string{"ready", "any"}, candidates(t, "--wait", ""))
	require.Contains(t, candidates(t, "add", "file"), "filesystem")
	require.Contains(t, candidates(t, "import", ""), "codex")
	require.Contains(t, candidates(t, ""), "status")
	require.NotContains(t, candidates(t, ""), completeName)
}

// remove completes every entry of the file that it changes, and no other file's.
func TestComplete_entries(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("AppData", home)
	t.Setenv("XDG_CONFIG_HOME", home)
	write := func(path, text string) string {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	first := write(filepath.Join(dir, "first.json"), `{"servers": {"other": {"command": "x"}}}`)
	last := write(filepath.Join(dir, "last.json"), `{"servers": {"on": {"command": "x"}, "off": {"command": "x", "disabled": true}, "odd": {"comand": 1}}}`)
	require.Equal(t, []string{"on", "off", "odd"}, candidates(t, "-c", first, "-c", last, "remove", ""))
	require.Equal(t, []string{"on", "odd"}, candidates(t, "-c", last, "restart", ""), "a disabled one cannot be restarted")
	if path := cli.UserConfig(); strings.HasPrefix(path, home) {
		write(path, `{"servers": {"mine": {"command": "x"}}}`)
		require.Equal(t, []string{"mine"}, candidates(t, "remove", "--user", ""))
	}
}

// What a server names reaches no shell in a form that is more than a word, nor a terminal in
// one that changes it.
func TestComplete_hostile_names(t *testing.T) {
	script := mcptest.Script{Tools: []mcptest.ToolDef{
		{Name: "good", Description: "One\x1b[2J\nline\tand more", InputSchema: json.RawMessage(`{"properties":{"--config":{"enum":["evil.json"]},"a;b":{},"c\nd":{},"e":{"enum":["x","$(y)"]},"f":{},"g":{"properties":{"x":{},"y;z":{}}}}}`)},
		{Name: "x;touch evil"}, {Name: "$(touch evil)"}, {Name: "two\nlines"}}}
	b := startReady(t, map[string]any{"one": entry(script)}, "run")
	var out strings.Builder
	require.Zero(t, run(t.Context(), []string{completeName, "words", "-c", b.config, "call", ""}, strings.NewReader(""), &out, io.Discard))
	require.Equal(t, "one/good\tOne[2J line and more\n", out.String())
	require.Equal(t, []string{"e=x", "f=", "g=", "g.x="}, candidates(t, "-c", b.config, "call", "one/good", ""))
}

// Each shell completes commands, servers, tools and parameters with its script.
func TestComplete_shells(t *testing.T) {
	program := buildProgram(t)
	b := startReady(t, map[string]any{"one": entry(mcptest.Script{})}, "run")
	environment := fmt.Sprintf("env XDG_RUNTIME_DIR=%s MCPVISOR_CONFIG=%s PATH=%s:$PATH PS1='> ' ", os.Getenv("XDG_RUNTIME_DIR"), b.config, filepath.Dir(program))
	for _, shell := range []struct{ name, command, setup string }{
		{"bash", "bash --norc --noprofile -i", "source <(mcpvisor completion bash)"},
		{"zsh", "zsh -f -i", "autoload -U compinit; compinit -u -D; source <(mcpvisor completion zsh)"},
		// As the packages install it: the function is loaded when it is first needed.
		{"zsh", "zsh -f -i", "d=$(mktemp -d); mcpvisor completion zsh >$d/_mcpvisor; fpath=($d $fpath); autoload -U compinit; compinit -u -D"},
		{"pwsh", "pwsh -NoProfile -NoLogo", "mcpvisor completion powershell | Out-String | Invoke-Expression"},
	} {
		t.Run(shell.name, func(t *testing.T) {
			if _, err := exec.LookPath(shell.name); err != nil {
				t.Skip(shell.name + " is not installed")
			}
			term := newTerminal(t, shortDir(t), environment+shell.command)
			term.await(`>|%|#`)
			term.press(shell.setup+"; echo set-up; clear; echo fin''ished", "Enter")
			term.await(`(?m)^finished`)
			term.press("mcpvisor stat", "Tab")
			term.await(`mcpvisor status\b`)
			term.press("--wait re", "Tab")
			term.await(`mcpvisor status --wait ready\b`)
			term.press("C-u")
			term.press("mcpvisor --js", "Tab", "call one/ec", "Tab")
			term.await(`mcpvisor --json call one/echo\b`)
			term.press("te", "Tab", "hello", "Enter")
			term.await(`call one/echo text=hello\s*\n\{"content":\[\{`)
		})
	}
	t.Run("fish", func(t *testing.T) {
		if _, err := exec.LookPath("fish"); err != nil {
			t.Skip("fish is not installed")
		}
		for line, want := range map[string]string{
			"mcpvisor stat":                   "status\tShow the states of the servers",
			"mcpvisor --json call one/ec":     "one/echo\tAnswers with its text.",
			"mcpvisor call one/echo te":       "text=",
			"mcpvisor restart ":               "one\tserver",
			"mcpvisor --config=x call one/ec": "",
		} {
			cmd := exec.CommandContext(t.Context(), "sh", "-c", environment+`HOME="$1" fish --no-config -c "mcpvisor completion fish | source; complete -C '$2'"`, "sh", t.TempDir(), line)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			require.Equal(t, want, strings.TrimSpace(string(out)), line)
		}
	})
}

func TestCompletion_unknown_shell(t *testing.T) {
	out := toolExits(t, cli.ExitUsage, "completion", "tcsh")
	require.Contains(t, out, "name one of: bash, zsh, fish, powershell")
}

// Every command line of the pages is one that this program takes.
func TestPages_commands(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	checked := 0
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		inBlock := false
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "```") {
				inBlock = !inBlock
			}
			command := strings.TrimPrefix(line, "$ ")
			if _, cron, found := strings.Cut(command, "/bin/mcpvisor "); found { // with its full path, as in a line of cron
				command = "mcpvisor " + cron
			}
			if !inBlock || !strings.HasPrefix(command, "mcpvisor ") {
				continue
			}
			command, _, _ = strings.Cut(command, " #")
			command, _, _ = strings.Cut(command, " | ")
			command, _, _ = strings.Cut(strings.ReplaceAll(strings.TrimSuffix(strings.TrimSpace(command), " &"), " >> ", " > "), " > ")
			words, _ := commandline.SplitLine(strings.TrimSpace(command), "")
			parser, err := newParser(new(commandLine), userFile, io.Discard, io.Discard, func(int) {})
			require.NoError(t, err)
			_, err = parser.Parse(words)
			require.NoError(t, err, "%s: %s", page, command)
			checked++
		}
	}
	require.GreaterOrEqual(t, checked, 20)
}
