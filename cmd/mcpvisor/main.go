// Command mcpvisor looks after the MCP servers of a configuration file, from
// the shell: it lists what they offer, calls it, watches over them, and says
// what is wrong with those that do not start.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/facade"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1 // the tool or the server failed
	exitUsage       = 2 // the command line or the configuration is wrong
	exitUnavailable = 3 // a server is not available
)

// description is the head of --help.
const description = `Looks after MCP servers.

Exit codes: 0 fine, 1 the tool or the server failed, 2 usage or configuration, 3 a server is unavailable. A list of tools, resources or prompts ends with 0 if any server came up, and stderr names those that did not; status and doctor end with 3 if a single one did not, status also if an entry of the file is no usable server.

With --json, stdout holds the answer and nothing else. An error is one line on stderr, the last one: an object with "message", "kind" and, where they are known, "server" and "outcome" (of the request: "not_sent", "unknown" or "answered"). Lines before it have the kind "warning".`

// commandLine is the whole command line.
type commandLine struct {
	Config string        `help:"Configuration file: mcpServers or servers, as Claude, Cursor and VS Code write them (default: ${default})." short:"c" default:"${config}" placeholder:"FILE"`
	JSON   bool          `help:"Print JSON, errors too." name:"json"`
	Wait   time.Duration `help:"How long to wait for servers to start (default: as long as their own clocks allow)." placeholder:"DURATION"`

	Status    statusCmd    `cmd:"" help:"Start the servers and show how they stand."`
	Tools     toolsCmd     `cmd:"" help:"List the tools of all servers."`
	Resources resourcesCmd `cmd:"" help:"List the resources and resource templates of all servers."`
	Prompts   promptsCmd   `cmd:"" help:"List the prompts of all servers."`
	Call      callCmd      `cmd:"" help:"Call a tool."`
	Read      readCmd      `cmd:"" help:"Read a resource."`
	Prompt    promptCmd    `cmd:"" help:"Get a prompt."`
	Run       runCmd       `cmd:"" help:"Keep the servers up and print what happens, until interrupted."`
	Authorize authorizeCmd `cmd:"" help:"Authorize this program at a server, with a browser."`
	Doctor    doctorCmd    `cmd:"" help:"Start each server once and explain what is wrong with those that fail."`
	Version   versionCmd   `cmd:"" help:"Print the version."`
}

// invocation is what a command has to do with: its surroundings.
type invocation struct {
	ctx    context.Context
	in     io.Reader
	out    io.Writer
	err    io.Writer
	config string
	json   bool
	wait   time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main without the process.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	var cli commandLine
	left := -1
	parser, err := kong.New(&cli, kong.Name("mcpvisor"), kong.UsageOnError(), kong.Writers(out, errs),
		kong.Description(description),
		kong.Vars{"config": config.DefaultPath}, kong.Exit(func(code int) { left = code }))
	if err != nil {
		fmt.Fprintln(errs, "mcpvisor:", err)
		return exitUsage
	}
	parsed, err := parser.Parse(args)
	if left >= 0 { // --help
		return left
	}
	inv := &invocation{ctx: ctx, in: in, out: out, err: errs, config: cli.Config, json: cli.JSON, wait: cli.Wait}
	if err == nil {
		err = parsed.Run(inv)
	} else {
		inv.json = slices.Contains(args, "--json") // nothing is filled in
		err = usageError("%v; see mcpvisor --help", err)
	}
	inv.reportError(err)
	return exitCode(err)
}

type versionCmd struct{}

// Run implements kong's command.
func (versionCmd) Run(inv *invocation) error {
	if inv.json {
		return printJSON(inv.out, map[string]string{"name": "mcpvisor", "version": facade.Version})
	}
	_, err := fmt.Fprintln(inv.out, "mcpvisor", facade.Version)
	return err
}
