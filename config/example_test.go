package config_test

import (
	"fmt"
	"os"
	"path/filepath"

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
