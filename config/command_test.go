package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Many READMEs of servers show a whole command line in "command".
func TestCommand_with_arguments(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"tool", "my tool"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o700))
	}
	t.Setenv("PATH", dir)

	f, problems := readEntry(t, `"command": "tool  -y foo", "args": ["bar"]`)
	require.Contains(t, problems, `is read as the program "tool" with 2 arguments`)
	require.Equal(t, "tool", f.Servers[0].Spec.Stdio.Command)
	require.Equal(t, []string{"-y", "foo", "bar"}, f.Servers[0].Spec.Stdio.Args)

	f, problems = readEntry(t, `"command": "my tool"`)
	require.Empty(t, problems)
	require.Equal(t, "my tool", f.Servers[0].Spec.Stdio.Command)

	f, problems = readEntry(t, `"command": "absent -y foo"`)
	require.Contains(t, problems, `"command" has spaces, and no program of that name is installed`)
	require.Equal(t, "absent -y foo", f.Servers[0].Spec.Stdio.Command)

	f, problems = readEntry(t, `"command": "tool --name 'two words'"`)
	require.Contains(t, problems, "command line with quotes")
	require.Empty(t, f.Servers)
}

// A backslash of a Windows path that is written once is invalid JSON, or names
// another path.
func TestCommand_with_single_backslashes(t *testing.T) {
	for text, says := range map[string]string{
		`{"servers": {"s": {"command": "C:\Users\me\x.exe"}}}`: "config mcp.json:1:31: this string is not valid JSON, because a backslash in it does not begin an escape; write each backslash twice",
		`{"servers": {"s": {"command": "C:\updates\x.exe"}}}`:  "write each backslash twice",
		"{\"servers\": {\"s\": {\"command\": \"a\tb\"}}}":      "this is not valid JSON: invalid literal",
	} {
		_, err := Parse([]byte(text), "mcp.json")
		require.ErrorContains(t, err, says)
	}
	for _, text := range []string{`"command": "C:\\tools\\x", "args": ["C:\temp"]`, `"command": "D:\new\bin"`, `"command": "x", "cwd": "c:\for"`} {
		f, problems := readEntry(t, text)
		require.Contains(t, problems, "its backslashes are read as escapes", text)
		require.Empty(t, f.Servers)
	}
	_, problems := readEntry(t, `"command": "C:\\temp\\x", "args": ["a\tb"]`)
	require.Empty(t, problems)
}

// A relative cwd begins at the directory of the file.
func TestCwd_relative(t *testing.T) {
	dir := t.TempDir()
	f, err := Parse([]byte(`{"servers": {"s": {"command": "x", "cwd": "sub"}, "u": {"command": "x", "cwd": "${userHome}"}}}`), filepath.Join(dir, "mcp.json"))
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "sub"), f.Servers[0].Spec.Stdio.Dir)
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	require.Equal(t, home, f.Servers[1].Spec.Stdio.Dir)
}
