package main

import (
	"context"
	"fmt"
	"io"
	"slices"
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

// Run implements kong's command.
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
	for _, c := range commandline.Complete(parser.Model, words, names) {
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

// Servers implements commandline.Names.
func (n *completionNames) Servers() (all []commandline.Candidate) {
	if n.attached() != nil {
		for _, name := range n.names {
			all = append(all, commandline.Candidate{Value: name, Description: "server"})
		}
		return all
	}
	file, err := config.LoadFiles(n.sources.Paths, websocket.Option)
	if err != nil {
		return nil
	}
	for _, s := range file.Servers {
		if !s.Disabled {
			all = append(all, commandline.Candidate{Value: s.Spec.Name, Description: "server"})
		}
	}
	for _, e := range servers.Unusable(file) { // for example because a variable is not set here
		all = append(all, commandline.Candidate{Value: e.Name, Description: "server"})
	}
	return all
}

// Tools implements commandline.Names.
func (n *completionNames) Tools() []commandline.Candidate {
	if c := n.attached(); c != nil {
		if data, err := c.Tools(n.ctx, ""); err == nil {
			return toolCandidates(data)
		}
	}
	var tools []commandline.Candidate
	for _, s := range n.Servers() { // the beginning of the name, at least
		tools = append(tools, commandline.Candidate{Value: s.Value + "/"})
	}
	return tools
}

// Arguments implements commandline.Names.
func (n *completionNames) Arguments(tool string) (all []commandline.Candidate) {
	c := n.attached()
	if c == nil {
		return nil
	}
	data, err := c.Tool(n.ctx, tool)
	if err != nil {
		return nil
	}
	tools, err := table.ParseTools(data)
	if err != nil || len(tools) == 0 {
		return nil
	}
	for _, p := range params.New(tools[0].Definition.InputSchema).Params {
		for _, value := range p.Enum {
			all = append(all, commandline.Candidate{Value: p.Name + "=" + params.Plain(value), Description: p.Description})
		}
		if len(p.Enum) == 0 {
			all = append(all, commandline.Candidate{Value: p.Name + "=", Description: p.Description})
		}
	}
	return all
}

// Others implements commandline.Names.
func (n *completionNames) Others(kind string) (all []commandline.Candidate) {
	var values []string
	switch kind {
	case "preset":
		values = presets.Names()
	case "host":
		values = edit.Hosts()
	case "entry":
		values = edit.Entries(n.sources, n.user)
	}
	for _, value := range values {
		all = append(all, commandline.Candidate{Value: value, Description: kind})
	}
	return all
}

func toolCandidates(data []byte) (all []commandline.Candidate) {
	tools, err := table.ParseTools(data)
	if err != nil {
		return nil
	}
	for _, t := range tools {
		all = append(all, commandline.Candidate{Value: t.Name, Description: t.Definition.Description})
	}
	return all
}
