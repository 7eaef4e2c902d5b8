package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A command line in "command" is what many READMEs of servers show.
func TestCommand_is_a_command_line(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"tool", "my tool"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o700))
	}
	t.Setenv("PATH", dir)

	f, problems := readEntry(t, `"command": "tool  -y foo", "args": ["bar"]`)
	require.Contains(t, problems, `it is read as the program "tool" with 2 arguments`)
	require.Equal(t, "tool", f.Servers[0].Spec.Stdio.Command)
	require.Equal(t, []string{"-y", "foo", "bar"}, f.Servers[0].Spec.Stdio.Args)

	f, problems = readEntry(t, `"command": "my tool"`)
	require.Empty(t, problems)
	require.Equal(t, "my tool", f.Servers[0].Spec.Stdio.Command)

	f, problems = readEntry(t, `"command": "absent -y foo"`)
	require.Contains(t, problems, `no program has the name in "command", which holds spaces`)
	require.Equal(t, "absent -y foo", f.Servers[0].Spec.Stdio.Command)

	f, problems = readEntry(t, `"command": "tool --name 'two words'"`)
	require.Contains(t, problems, "command line with quotes")
	require.Empty(t, f.Servers)
}

// Backslashes of Windows that are written once are no JSON, or another path.
func TestCommand_with_single_backslashes(t *testing.T) {
	for text, says := range map[string]string{
		`{"servers": {"s": {"command": "C:\Users\me\x.exe"}}}`: "mcp.json:1:31: this string is not JSON: a backslash in it begins no escape; a backslash is written twice",
		`{"servers": {"s": {"command": "C:\updates\x.exe"}}}`:  "a backslash is written twice",
		"{\"servers\": {\"s\": {\"command\": \"a\tb\"}}}":      "this is not JSON: invalid literal",
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

// Gemini CLI writes Streamable HTTP as httpUrl, and prefers it to url.
func TestHTTPURL(t *testing.T) {
	for _, members := range []string{`"httpUrl": "https://h/mcp"`, `"httpUrl": "https://h/mcp", "url": "https://h/sse"`, `"url": "https://h/sse", "httpUrl": "https://h/mcp"`} {
		f, problems := readEntry(t, members)
		require.Empty(t, problems, members)
		require.Equal(t, "https://h/mcp", f.Servers[0].Spec.HTTP.URL)
	}
}
