package config_test

import (
	"fmt"

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
