package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/config"
)

func ExampleParse() {
	text := `{
  "mcpServers": {
    "fs": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "${DIR:-/tmp}"]},
    "web": {"comand": "fetch-server"},
  }
}`
	file, err := config.Parse([]byte(text), ".mcp.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, spec := range file.Specs() {
		fmt.Println(spec.Name, spec.Stdio.Args[2])
	}
	for _, p := range file.Problems {
		fmt.Println(p)
	}
	// Output:
	// fs /tmp
	// config .mcp.json:4:13: server "web": unknown key "comand" (did you mean "command"?), so it has neither "command" nor "url"
}

func ExampleLoadFiles() {
	dir, err := os.MkdirTemp("", "config")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for name, text := range map[string]string{
		"project.json": `{"mcpServers": {"fs": {"command": "project-server"}}}`,
		"user.json":    `{"mcpServers": {"fs": {"command": "user-server"}, "memory": {"command": "memory-server"}}}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			fmt.Println(err)
			return
		}
	}
	// The project's file comes last, so its entries win.
	file, err := config.LoadFiles([]string{filepath.Join(dir, "user.json"), filepath.Join(dir, "project.json")})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range file.Servers {
		fmt.Println(s.Entry, s.Spec.Stdio.Command, filepath.Base(s.Path), len(s.Replaces))
	}
	// Output:
	// memory memory-server user.json 0
	// fs project-server project.json 1
}

// Nil options count as defaults.
func TestNilOptions(t *testing.T) {
	t.Setenv("NIL_OPTIONS", "echo")
	f, err := config.Parse([]byte(`{"mcpServers":{"s":{"command":"${NIL_OPTIONS}"}}}`), "c.json", nil, config.WithLookup(nil))
	require.NoError(t, err)
	require.Empty(t, f.Problems)
	require.Equal(t, "echo", f.Specs()[0].Stdio.Command)
}

// No file is not an empty file: a program that follows its configuration would end every
// server.
func TestLoadFiles_none(t *testing.T) {
	_, err := config.LoadFiles(nil)
	require.ErrorContains(t, err, "no file is named")
}
