package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/attach"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/commandline"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/edit"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/params"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/presets"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/websocket"
	"github.com/mcpvisor/mcpvisor/config"
)

type completionCmd struct {
	Shell string `arg:"" help:"The shell: bash, zsh, fish or powershell." complete:"bash,zsh,fish,powershell"`
}

func (cmd *completionCmd) Run(inv *invocation) error {
	script, err := commandline.Script(cmd.Shell)
	if err != nil {
		return cli.UsageError("%v", err)
	}
	_, err = io.WriteString(inv.Out, script)
	return err
}

// completeName is the command that the scripts of the shells run. It is not for users, so no
// help shows it.
const completeName = "__complete"

// completeTimeout bounds how long a shell waits for candidates.
const completeTimeout = time.Second

// complete prints candidates for the line that is typed in a shell, one on each line, and
// nothing if it has none. args are "bash", the characters that break words, and the line; or
// "words" and the words of the line. It starts no server, asks the user nothing, and is
// silent about what fails.
func complete(ctx context.Context, args []string, out io.Writer) {
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	parser, err := newParser(new(commandLine), cli.UserConfig(), io.Discard, io.Discard, func(int) {})
	if err != nil || len(args) == 0 {
		return
	}
	words, broken, isBash := args[1:], "", args[0] == "bash"
	if isBash {
		if len(args) != 3 {
			return
		}
		words, broken = commandline.SplitLine(args[2], args[1])
	}
	names := &completionNames{ctx: ctx, sources: cli.NewSources(commandline.Flag(parser.Model, words, "config")), user: slices.Contains(words, "--user")}
	defer names.close()
	for _, c := range commandline.Complete(parser.Model, words, names.of) {
		switch {
		case isBash && c.Value == commandline.Files: // bash completes files if nothing is printed
		case isBash:
			fmt.Fprintln(out, c.Value[min(len(broken), len(c.Value)):])
		default:
			fmt.Fprintf(out, "%s\t%s\n", c.Value, table.OneLine(c.Description, 80))
		}
	}
}

// completionNames are the names of a configuration: from its `mcpvisor run` if that is
// running, else from its files.
type completionNames struct {
	ctx     context.Context
	sources cli.Sources
	user    bool // the line has --user

	looked bool
	run    *attach.Client // nil without one
	names  []string       // of the servers, if there is a run
}

// attached returns the client of the running `mcpvisor run`; nil without one.
func (n *completionNames) attached() *attach.Client {
	if !n.looked {
		n.looked = true
		if c, info, err := attach.Find(n.ctx, n.sources.Key); err == nil {
			n.run, n.names = c, info.Servers
		}
	}
	return n.run
}

func (n *completionNames) close() {
	if n.run != nil {
		n.run.Close()
	}
}

// of is a commandline.Names.
func (n *completionNames) of(kind string, given []string) (all []commandline.Candidate) {
	add := func(value, description string) {
		all = append(all, commandline.Candidate{Value: value, Description: description})
	}
	var values []string
	switch kind {
	case "preset":
		values = presets.Names()
	case "host":
		values = edit.Hosts()
	case "entry":
		values = edit.Entries(n.sources, n.user)
	case "server":
		values = n.servers()
	case "member": // a server, or a group
		values = append(slices.Clone(n.servers()), n.groups()...)
	case "target": // a server, or a tool
		return append(n.of("server", nil), n.of("tool", nil)...)
	case "tool":
		tools, listed := n.tools("")
		for _, t := range tools {
			add(t.Name, t.Definition.Description)
		}
		for _, name := range n.servers() {
			if !listed { // the beginning of the name, at least
				add(name+"/", "")
			}
		}
	case "argument": // key=value of the tool in the argument before
		tools, _ := n.tools(given[0])
		var addAll func([]params.Param)
		addAll = func(parameters []params.Param) {
			for _, p := range slices.DeleteFunc(parameters, func(p params.Param) bool { return strings.HasPrefix(p.Name, "-") }) { // no flags
				for _, value := range p.Enum {
					add(p.Name+"="+params.Plain(value), p.Description)
				}
				if len(p.Enum) == 0 {
					add(p.Name+"=", p.Description)
				}
				addAll(p.Fields)
			}
		}
		for _, t := range tools {
			addAll(params.New(t.Definition.InputSchema).Params)
		}
	}
	for _, value := range values {
		add(value, kind)
	}
	return all
}

// file reads the names of the files; nil if they cannot be read.
func (n *completionNames) file() *config.File {
	file, _ := config.LoadFiles(n.sources.Paths, websocket.Option) // a shell shows no error
	return file
}

func (n *completionNames) groups() (names []string) {
	if c := n.attached(); c != nil {
		status, _ := c.Status(n.ctx)
		for _, g := range status.Groups {
			names = append(names, g.Name)
		}
	} else if file := n.file(); file != nil {
		for _, g := range file.Groups {
			names = append(names, g.Name)
		}
	}
	return names
}

func (n *completionNames) servers() (names []string) {
	if n.attached() != nil {
		return n.names
	}
	file := n.file()
	if file == nil {
		return nil
	}
	for _, s := range file.Servers {
		if !s.Disabled {
			names = append(names, s.Spec.Name)
		}
	}
	for _, e := range servers.Unusable(file) { // for example because a variable is not set here
		names = append(names, e.Name)
	}
	return names
}

// tools returns the tool of a name, or all without one. listed is false if no `mcpvisor run` lists them.
func (n *completionNames) tools(name string) (tools []table.Tool, listed bool) {
	c := n.attached()
	if c == nil {
		return nil, false
	}
	read := c.Tool
	if name == "" {
		read = c.Tools
	}
	data, err := read(n.ctx, name)
	if err == nil {
		tools, err = table.ParseTools(data)
	}
	return tools, err == nil
}
