package main

import (
	"time"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/commandline"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/daemon"
)

type manCmd struct{}

// userFile is how the page names the user's file: whoever reads it is not who made it.
const userFile = "~/.config/mcpvisor/mcp.json"

// Run implements kong's command.
func (manCmd) Run(inv *invocation) error {
	parser, err := newParser(new(commandLine), userFile, inv.Out, inv.Err, func(int) {})
	if err != nil {
		return err
	}
	changed, err := time.Parse(time.RFC3339, programVersion().Time)
	if err != nil { // the build does not know it
		changed = time.Now()
	}
	page := commandline.ManualPage{Model: parser.Model, Summary: "start, call and supervise MCP servers", Date: changed, Sections: manSections}
	return page.Write(inv.Out)
}

// manSections are the parts of the manual page that the command line does not have.
var manSections = []commandline.Section{
	{Title: "ENVIRONMENT", Items: [][2]string{
		{cli.ConfigVariable, "Configuration files, as PATH lists directories. --config replaces it."},
		{daemon.TokenVariable, "The token that the page of run requires, unless --token-file names a file with it."},
		{"MCPVISOR_FLEET_ETCD", "The addresses of etcd for mcpvisor fleet, unless --etcd names them. MCPVISOR_FLEET_PREFIX, MCPVISOR_FLEET_ETCD_CA, MCPVISOR_FLEET_ETCD_CERT, MCPVISOR_FLEET_ETCD_KEY, MCPVISOR_FLEET_ETCD_USER, MCPVISOR_FLEET_ETCD_PASSWORD_FILE, MCPVISOR_FLEET_NODE and MCPVISOR_FLEET_CERTS are further options of it."},
		{"NO_COLOR", "If it is set, tables and top have no colours."},
		{"XDG_RUNTIME_DIR", "The directory below which run makes its unix socket. Without it, that is in the user's cache directory."},
	}},
	{Title: "FILES", Items: [][2]string{
		{".mcp.json", "The configuration of a directory."},
		{userFile, "The configuration of the user, which is read first."},
	}},
	{Title: "EXIT STATUS", Items: [][2]string{
		{"0", "Success."},
		{"1", "The tool or the server failed, or the command was interrupted."},
		{"2", "The command line or the configuration is wrong."},
		{"3", "A server is not available."},
	}},
	{Title: "EXAMPLES", Items: [][2]string{
		{"mcpvisor status", "Start each server of .mcp.json once, and show what became of it."},
		{"mcpvisor tools fs/list_directory", "Show a tool and its parameters."},
		{"mcpvisor call fs/list_directory path=/tmp", "Call it."},
		{"mcpvisor run --http 127.0.0.1:7777", "Keep the servers running, with a page. Other commands attach to it."},
		{"mcpvisor status --wait ready --timeout 30s", "Wait until all servers of run are ready."},
		{"mcpvisor --config fleet:a top", "Show the servers of a fleet, as node a on this machine sees them."},
		{"source <(mcpvisor completion bash)", "Complete commands, servers and tools in bash."},
	}},
}
