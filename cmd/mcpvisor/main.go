// Command mcpvisor starts the MCP servers of a configuration file. It lists and
// calls what they offer, keeps them running, and explains why a server does not
// start.
//
// This package has the command line and the commands that show and call what servers offer.
// What opens servers is package servers, and what all commands have in common is package cli.
// The commands run and doctor, and those that change configuration files, are the packages
// daemon, doctor and edit.
//
// This package is large because it has two dozen commands, most of them a file each, and
// the command line wants them as fields of one type.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/daemon"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/doctor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/edit"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/fleetcmd"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/presets"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/facade"
)

const description = `Starts, calls and supervises the MCP servers of a configuration file.

While mcpvisor run is running, status, tools, resources, prompts, call, read and prompt use its servers. Otherwise, or with --fresh, they start copies of the servers and stop them at their end.

Exit codes: 0 success, 1 the tool or the server failed or the command was interrupted, 2 usage or configuration, 3 a server is unavailable. A list of tools, resources or prompts ends with 0 if any server became ready, and stderr names the others. status and doctor end with 3 if any server did not become ready, status and reload also if an entry of the file is not usable. If interrupted, these and the lists with --json print partial results.

With --json, stdout gets only the answer. An error is the last line on stderr: an object with "message", "kind" and, where they are known, "server" and the "outcome" of the request ("not_sent", "unknown" or "answered"). Lines before it have the kind "warning".`

type commandLine struct {
	Config []string  `help:"Configuration file, with mcpServers or servers as Claude, Cursor, Gemini CLI and VS Code write them. Several are read as one; an entry replaces that of the same name in an earlier file (default: those of MCPVISOR_CONFIG, a list as in PATH, or else ${user} and ${config}, as far as they exist)." short:"c" sep:"none" complete:"file" placeholder:"FILE"`
	JSON   bool      `help:"Print JSON, also for errors." name:"json"`
	Wait   waitValue `help:"How long to wait for servers to start (default: each server's start timeout, 60s, plus its list timeout; 10s for a list of the servers of mcpvisor run, and not for one whose last start has failed). For status also ready or any: wait until all servers of mcpvisor run are ready, or one." placeholder:"DURATION" complete:"ready,any"`
	Fresh  bool      `help:"Start copies of the servers, even while mcpvisor run has them running."`

	ShowVersion versionFlag `help:"Print the version and the revision." name:"version"`

	Init    edit.Init    `cmd:"" help:"Make a configuration file, and name other hosts' files that have servers."`
	Import  edit.Import  `cmd:"" help:"Import servers from the files of other hosts: Claude, Cursor, VS Code, Codex, Gemini CLI, Zed, Windsurf, OpenCode, goose. Shows what it would do; --write does it."`
	Install edit.Install `cmd:"" help:"Show the entry by which another host starts mcpvisor stdio, and so has all servers as one; --write adds it."`
	Add     edit.Add     `cmd:"" help:"Add a server to the configuration file: a preset, an address, or a command after --."`
	Remove  edit.Remove  `cmd:"" help:"Remove a server from the configuration file."`

	Status       statusCmd        `cmd:"" help:"Show the states of the servers."`
	Attention    attentionCmd     `cmd:"" help:"Show what an operator should look at in mcpvisor run, the most urgent first. Ends with 3 if something does not come back by itself."`
	Clients      clientsCmd       `cmd:"" help:"Show the clients of mcpvisor run: the hosts, what they call, and what they may call."`
	Tools        toolsCmd         `cmd:"" help:"List the tools of all servers."`
	Resources    resourcesCmd     `cmd:"" help:"List the resources and resource templates of all servers."`
	Prompts      promptsCmd       `cmd:"" help:"List the prompts of all servers."`
	Call         callCmd          `cmd:"" help:"Call a tool. A terminal gets its texts without control characters, a file or a program gets them as the server sent them."`
	Read         readCmd          `cmd:"" help:"Read a resource. A terminal gets its text without control characters, a file or a program gets it as the server sent it."`
	Prompt       promptCmd        `cmd:"" help:"Get a prompt."`
	Run          daemon.Command   `cmd:"" help:"Keep the servers running and print what happens to them, until interrupted. It follows changes of the configuration. Other commands attach to it."`
	Stdio        stdioCmd         `cmd:"" help:"Serve all servers of mcpvisor run to the host that has started this command, as one MCP server on stdin and stdout. Starts mcpvisor run if it is not running; several hosts share it. The session outlives a restart of mcpvisor run."`
	Wrap         wrapCmd          `cmd:"" help:"Start one server, given as a command after -- or as an address, and serve it to the host that has started this command: it is supervised, and the host does not notice its restarts."`
	Token        tokenCmd         `cmd:"" help:"Make a token for clients of mcpvisor run --mcp, and print the line for the file of --mcp-tokens."`
	Top          topCmd           `cmd:"" help:"Show the servers live in this terminal: states, causes, stderr, tools, calls in flight."`
	Logs         logsCmd          `cmd:"" help:"Print what a server of mcpvisor run writes to its stderr."`
	Inspect      inspectCmd       `cmd:"" help:"Show the last inputs of a server's lifecycle in mcpvisor run, with their effects and causes, and how many actors there are."`
	Calls        callsCmd         `cmd:"" help:"Show the calls of mcpvisor run with their outcomes and clients: those that its records keep, also while it does not run, or else the last ones that it remembers."`
	Events       eventsCmd        `cmd:"" help:"Show what has happened to the servers of mcpvisor run: all that its records keep, also while it does not run, or else what it remembers."`
	Availability availabilityCmd  `cmd:"" help:"Show how much of a day, or of another time, each server was ready, from the records of mcpvisor run, also while it does not run."`
	Audit        auditCmd         `cmd:"" help:"Check the records of mcpvisor run --records."`
	Tasks        tasksCmd         `cmd:"" help:"Show the calls that servers of mcpvisor run execute as tasks, and those that its journal knows."`
	Approvals    approvalsCmd     `cmd:"" help:"Show the calls of mcpvisor run that wait for a decision, because a rule of the configuration asks."`
	Approve      approveCmd       `cmd:"" help:"Send calls that mcpvisor approvals shows."`
	Deny         denyCmd          `cmd:"" help:"Refuse calls that mcpvisor approvals shows."`
	Restart      restartCmd       `cmd:"" help:"Restart servers of mcpvisor run, and wait until they are ready."`
	Stop         stopCmd          `cmd:"" help:"Stop servers or groups of mcpvisor run. They keep their registrations, are not listed, and run again only after mcpvisor start."`
	Start        startCmd         `cmd:"" help:"Start servers of mcpvisor run that do not run, and what has failed or is stopped in groups, and wait until they are ready."`
	Reload       reloadCmd        `cmd:"" help:"Make mcpvisor run read its configuration again, with the files and secrets that this refers to. It does so by itself when the configuration changes."`
	Fleet        fleetcmd.Command `cmd:"" help:"Run the same servers on several machines, some of them at most once, with etcd: certificates, nodes, and commands for operators."`
	Lock         lockCmd          `cmd:"" help:"Pin what the servers offer in mcpvisor.lock: make it, see what differs, approve it."`
	Authorize    authorizeCmd     `cmd:"" help:"Authorize this program at a server, in a browser."`
	Doctor       doctor.Command   `cmd:"" help:"Start a copy of each server once and explain why it fails."`
	Chaos        chaosCmd         `cmd:"" help:"Kill, stop, flood and restart copies of servers while their read-only tools are called, and report how each behaves. Remote servers get no flood: only their sessions and connections end, on this side."`
	Show         configCmd        `cmd:"" name:"config" help:"Show the entries of the configuration, the file and line of each, and what is wrong with them. Starts nothing."`
	Schema       schemaCmd        `cmd:"" help:"Print the JSON Schema of configuration files, for editors."`
	Version      versionCmd       `cmd:"" help:"Print the version and the revision."`
	Complete     completionCmd    `cmd:"" name:"completion" help:"Print a script that completes commands, flags, servers and tools in a shell: source <(mcpvisor completion bash)."`
	Help         helpCmd          `cmd:"" help:"Show help, also about one command."`
}

// invocation is one run of the program, for the commands that talk to servers.
type invocation struct{ servers.Opener }

func main() {
	fleetcmd.GuardMain() // first of all: the process may be the guard of a node
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main without the process. It returns the exit code. Without arguments it prints help.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	switch {
	case len(args) == 0:
		args = []string{"--help"}
	case args[0] == completeName:
		complete(ctx, args[1:], out)
		return cli.ExitOK
	}
	var line commandLine
	exited := -1 // the code that kong would exit with; -1 if it would not
	parser, err := newParser(&line, cli.UserConfig(), out, errs, func(code int) { exited = code })
	if err != nil {
		fmt.Fprintln(errs, "mcpvisor:", err)
		return cli.ExitUsage
	}
	parsed, err := parser.Parse(args)
	if exited >= 0 { // --help
		return exited
	}
	inv := &invocation{servers.Opener{Invocation: cli.Invocation{Context: ctx, In: in, Out: out, Err: errs, Sources: cli.NewSources(line.Config), JSON: line.JSON,
		Wait: line.Wait.duration, WaitFor: line.Wait.condition, Fresh: line.Fresh}}}
	if i := slices.Index(args, "--"); i >= 0 {
		inv.Words = append([]string{}, args[i+1:]...)
	}
	switch {
	case err != nil:
		inv.JSON = slices.Contains(args, "--json") // line was not filled: parsing failed
		err = cli.UsageError("%v; see mcpvisor --help", err)
	case inv.WaitFor != "" && (parsed.Selected().Name != "status" || parsed.Selected().Parent.Type != kong.ApplicationNode):
		err = cli.UsageError("--wait %s is for status only; write a duration such as --wait 30s", inv.WaitFor)
	default:
		if err = refuseBytes(parsed.Selected().Name, args); err == nil {
			inv.takeEntryNames(parsed)
			err = inv.run(parsed)
		}
	}
	inv.ReportError(err)
	return cli.ExitCode(err)
}

// run runs a command. One that takes a Set needs a running `mcpvisor run`, and gets its servers.
func (inv *invocation) run(parsed *kong.Context) error {
	stop := func() {}
	defer func() { stop() }()
	_ = parsed.BindSingletonProvider(func() (*servers.Set, error) { // of a form that kong accepts
		c, err := inv.AttachOnly(strings.TrimPrefix(parsed.Selected().FullPath(), "mcpvisor "))
		if err == nil {
			stop = c.Stop
		}
		return c, err
	})
	return parsed.Run(inv, &inv.Opener, &inv.Invocation)
}

// takeEntryNames replaces names of entries by those of their servers, in all that the command
// line says is a server or a tool.
func (inv *invocation) takeEntryNames(parsed *kong.Context) {
	command := parsed.Selected()
	values := slices.Clone(command.Positional)
	for _, flag := range command.Flags {
		values = append(values, flag.Value)
	}
	for _, value := range values {
		replace := map[string]func(string) string{"server": inv.ServerName, "member": inv.ServerName, "tool": inv.ToolName, "target": func(name string) string {
			if replaced := inv.ServerName(name); replaced != name {
				return replaced
			}
			return inv.ToolName(name)
		}}[value.Tag.Get("complete")]
		if replace == nil {
			continue
		}
		switch given := value.Target.Addr().Interface().(type) {
		case *string:
			*given = replace(*given)
		case *[]string:
			for i, name := range *given {
				(*given)[i] = replace(name)
			}
		}
	}
}

// refuseBytes is an error if a word that is sent to a server is not UTF-8. The parser has
// replaced such bytes in what the command gets.
func refuseBytes(command string, args []string) error {
	for _, word := range args {
		if (command == "call" || command == "prompt") && !utf8.ValidString(word) {
			return cli.UsageError("argument %q is not UTF-8, and JSON cannot hold it; encode it, for instance as base64, if the server takes that", word)
		}
	}
	return nil
}

// newParser makes the parser of the command line. user is the path of the user's file, as help shows it.
func newParser(line *commandLine, user string, out, errs io.Writer, exit func(code int)) (*kong.Kong, error) {
	return kong.New(line, kong.Name("mcpvisor"), kong.UsageOnError(), kong.Writers(out, errs),
		kong.Description(description), kong.Vars{"config": config.DefaultPath, "user": user,
			"presets": strings.Join(presets.Names(), ", "), "hosts": strings.Join(edit.Hosts(), ", ")}, kong.Exit(exit))
}

type helpCmd struct {
	Command []string `arg:"" optional:"" help:"Command to show the help of." complete:"command"`
}

func (cmd *helpCmd) Run(inv *invocation) error {
	if code := run(inv.Context, append(slices.Clone(cmd.Command), "--help"), inv.In, inv.Out, inv.Err); code != cli.ExitOK {
		return &cli.ExitError{Code: code} // it was reported
	}
	return nil
}

type versionCmd struct{}

func (versionCmd) Run(inv *invocation) error {
	v := programVersion()
	if inv.JSON {
		return cli.PrintJSON(inv.Out, v)
	}
	_, err := fmt.Fprintln(inv.Out, v)
	return err
}

// versionFlag is --version, which prints the version before anything else is looked at.
type versionFlag bool

// BeforeReset implements a hook of kong.
func (versionFlag) BeforeReset(app *kong.Kong) error {
	fmt.Fprintln(app.Stdout, programVersion())
	app.Exit(cli.ExitOK)
	return nil
}

// version is what the build knows about its source.
type version struct {
	Name string `json:"name"`
	// Version is that of the program's module; [facade.Version] if the build does not know it.
	Version string `json:"version"`
	// Revision is the commit; empty if the build does not know it. Modified says that the
	// files differed from it.
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
}

func (v version) String() string {
	text := v.Name + " " + v.Version
	if v.Revision != "" {
		text += fmt.Sprintf(" (revision %.12s", v.Revision)
		if v.Time != "" {
			text += " of " + v.Time
		}
		if v.Modified {
			text += ", modified"
		}
		text += ")"
	}
	return text + " " + v.Go
}

func programVersion() version {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = new(debug.BuildInfo)
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) version {
	v := version{Name: "mcpvisor", Version: info.Main.Version, Go: info.GoVersion}
	if v.Version == "" || v.Version == "(devel)" {
		v.Version = facade.Version()
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
