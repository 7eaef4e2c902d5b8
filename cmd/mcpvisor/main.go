// Command mcpvisor looks after the MCP servers of a configuration file, from
// the shell: it lists what they offer, calls it, watches over them, and says
// what is wrong with those that do not start.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/facade"
)

// Exit codes.
const (
	exitFine        = 0
	exitFailed      = 1 // the tool or the server failed
	exitUsage       = 2 // the command line or the configuration is wrong
	exitUnavailable = 3 // a server is not available
)

// commandLine is the whole command line.
type commandLine struct {
	Config string        `help:"Configuration file: mcpServers or servers, as Claude, Cursor and VS Code write them." short:"c" default:"${config}" placeholder:"FILE"`
	JSON   bool          `help:"Print JSON." name:"json"`
	Wait   time.Duration `help:"How long to wait for servers to start." default:"60s"`

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

// shell is what a command has to do with: its surroundings.
type shell struct {
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
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main without the process.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	var cli commandLine
	left := -1
	parser, err := kong.New(&cli, kong.Name("mcpvisor"), kong.UsageOnError(), kong.Writers(out, errs),
		kong.Description("Looks after MCP servers. Exit codes: 0 fine, 1 the tool or server failed, 2 usage or configuration, 3 a server is unavailable."),
		kong.Vars{"config": config.DefaultPath}, kong.Exit(func(code int) { left = code }))
	if err != nil {
		fmt.Fprintln(errs, "mcpvisor:", err)
		return exitUsage
	}
	parsed, err := parser.Parse(args)
	if left >= 0 { // --help
		return left
	}
	if err != nil {
		fmt.Fprintf(errs, "mcpvisor: %v; see mcpvisor --help\n", err)
		return exitUsage
	}
	sh := &shell{ctx: ctx, in: in, out: out, err: errs, config: cli.Config, json: cli.JSON, wait: cli.Wait}
	err = parsed.Run(sh)
	if err != nil && err.Error() != "" {
		fmt.Fprintln(errs, "mcpvisor:", plain(err.Error()))
	}
	return exitCode(err)
}

// exit is an error with a code of its own. Without text, everything has been
// said already.
type exit struct {
	code int
	text string
}

func (e *exit) Error() string { return e.text }

func usage(format string, args ...any) error {
	return &exit{exitUsage, fmt.Sprintf(format, args...)}
}

func exitCode(err error) int {
	var own *exit
	switch {
	case err == nil:
		return exitFine
	case errors.As(err, &own):
		return own.code
	case errors.Is(err, facade.ErrUnknownTool), errors.Is(err, facade.ErrUnknownServer), errors.Is(err, facade.ErrInvalid):
		return exitUsage
	case errors.Is(err, facade.ErrUnavailable), errors.Is(err, facade.ErrEvicted), errors.Is(err, facade.ErrStart),
		errors.Is(err, facade.ErrAuthRequired), errors.Is(err, facade.ErrClosed):
		return exitUnavailable
	}
	return exitFailed
}

type versionCmd struct{}

// Run implements kong's command.
func (versionCmd) Run(sh *shell) error {
	fmt.Fprintln(sh.out, "mcpvisor", facade.Version)
	return nil
}
