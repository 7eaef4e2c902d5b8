package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
	"github.com/mcpvisor/mcpvisor/internal/nearest"
	"github.com/mcpvisor/mcpvisor/internal/toolname"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

type resourcesCmd struct{}

func (resourcesCmd) Run(inv *invocation) error {
	return inv.list("SERVER\tURI\tNAME", `{"resources": [], "resourceTemplates": []}`, (*servers.Set).Resources, func(data []byte) (rows [][]any, err error) {
		var list struct {
			Resources         []mcpvisor.Resource
			ResourceTemplates []mcpvisor.ResourceTemplate
		}
		err = json.Unmarshal(data, &list)
		for _, r := range list.Resources {
			rows = append(rows, []any{r.Server, r.URI, r.Definition.Name})
		}
		for _, t := range list.ResourceTemplates {
			rows = append(rows, []any{t.Server, t.URITemplate, t.Definition.Name + " (template)"})
		}
		return rows, err
	})
}

type promptsCmd struct{}

func (promptsCmd) Run(inv *invocation) error {
	return inv.list("PROMPT\tDESCRIPTION", `{"prompts": []}`, (*servers.Set).Prompts, func(data []byte) (rows [][]any, err error) {
		var list struct{ Prompts []mcpvisor.Prompt }
		err = json.Unmarshal(data, &list)
		for _, p := range list.Prompts {
			rows = append(rows, []any{p.Name, p.Definition.Description})
		}
		return rows, err
	})
}

// list prints what all servers that became ready offer. read gets the list as JSON, and
// rowsOf makes the rows of a table of it. An interrupted command prints what is ready so far, and fails; nothing is
// the JSON of no entries.
func (inv *invocation) list(header, nothing string, read func(*servers.Set, context.Context) (json.RawMessage, error), rowsOf func([]byte) ([][]any, error)) error {
	c, opened := inv.OpenPartly()
	interrupted := errors.Is(opened, cli.ErrInterrupted)
	switch {
	case c != nil:
		defer c.Stop()
	case interrupted && inv.JSON:
		return cmp.Or(cli.PrintIndented(inv.Out, []byte(nothing)), opened)
	}
	if opened != nil && (c == nil || !interrupted) {
		return opened
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(inv.Context)) // after an interrupt it asks for what there is
	defer cancel()
	defer context.AfterFunc(inv.Context, func() { time.AfterFunc(servers.CloseTimeout, cancel) })()
	data, err := read(c, ctx)
	if err != nil {
		return err
	}
	if inv.JSON {
		err = cli.PrintIndented(inv.Out, data)
	} else {
		var rows [][]any
		if rows, err = rowsOf(data); err == nil {
			err = inv.Table(header, rows)
		}
	}
	if err != nil {
		return err
	}
	all, err := c.Statuses(ctx)
	if err != nil {
		return err
	}
	return cmp.Or(opened, inv.WarnUnready(all))
}

type toolsCmd struct {
	Stats bool   `help:"Show how often the tools of mcpvisor run were called, how these calls ended, how long they took, and what the definitions cost a model."`
	Sort  string `help:"Order of --stats: ${enum}." enum:"time,calls,p95,failures,tokens,name" default:"time" complete:"time,calls,p95,failures,tokens,name" placeholder:"KEY"`
	Since string `help:"--stats of the calls that were recorded since then, in all runs: a duration such as 24h or 7d, or a time." placeholder:"WHEN"`
	recordsDir
	Name string `arg:"" optional:"" help:"Server, or tool as in fs/list_directory, or alias of a tool: show only these, with their parameters." placeholder:"SERVER[/TOOL]" complete:"target"`
}

func (cmd *toolsCmd) Run(inv *invocation) error {
	if cmd.Stats {
		return cmd.printStats(inv)
	}
	if cmd.Since+cmd.Records != "" {
		return cli.UsageError("--since and --records are about --stats; write tools --stats --since 24h")
	}
	if cmd.Sort != "time" && cmd.Sort != "" {
		return cli.UsageError("--sort is about --stats; write tools --stats --sort %s", cmd.Sort)
	}
	inv.AskForms() // servers list the same tools as for call
	if cmd.Name != "" {
		return inv.describeTools(cmd.Name)
	}
	read := func(c *servers.Set, ctx context.Context) (json.RawMessage, error) { return c.Tools(ctx, "") }
	return inv.list("TOOL\tDESCRIPTION", `{"tools": []}`, read, func(data []byte) (rows [][]any, err error) {
		tools, err := table.ParseTools(data)
		for _, t := range tools {
			rows = append(rows, []any{t.Name, t.Definition.Description})
		}
		return rows, err
	})
}

// describeTools prints the tools of one server, or one tool, with their parameters.
func (inv *invocation) describeTools(name string) error {
	open, read := inv.openReady, (*servers.Set).Tools
	if isToolName(name) {
		open, read = inv.OpenTool, (*servers.Set).Tool
	}
	c, err := open(name)
	if err != nil {
		return err
	}
	defer c.Stop()
	data, err := read(c, inv.Context, name)
	if err != nil {
		return err
	}
	if tools, err := table.ParseTools(data); isToolName(name) && (err != nil || len(tools) == 0) {
		return inv.unknownTool(c, name)
	}
	return inv.printTools(data)
}

func isToolName(name string) bool {
	return strings.Contains(name, "/") || strings.HasPrefix(name, toolname.AliasPrefix)
}

// openReady opens one server, which must become ready.
func (inv *invocation) openReady(name string) (*servers.Set, error) {
	c, err := inv.OpenServer(name)
	if err != nil || !c.Attached() {
		return c, err
	}
	if err := inv.requireReady(c, name, "; mcpvisor status shows when it is ready"); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

// requireReady is an error, which ends with an advice, if a server of mcpvisor run is neither ready nor at rest.
func (inv *invocation) requireReady(c *servers.Set, name, advice string) error {
	server, err := c.Described(inv.Context, name)
	if s := server.Status; err == nil && s.State != supervisor.StateReady && !control.IsAtRest(s.State) {
		err = cli.UnavailableError(s, "server %s is %s: %s%s", name, s.State, inv.Reason(s), advice)
	}
	return err
}

// unknownTool is the error about a tool that no server lists.
func (inv *invocation) unknownTool(c *servers.Set, name string) error {
	server, _, qualified := mcpvisor.SplitName(name)
	if qualified && c.Attached() {
		if err := inv.requireReady(c, server, ""); err != nil {
			return err
		}
	}
	data, err := c.Tools(inv.Context, server)
	if err != nil {
		return err
	}
	tools, err := table.ParseTools(data)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(tools))
	for _, t := range tools {
		names = append(names, t.Name)
	}
	text := fmt.Sprintf("there is no tool %q", name)
	if similar := nearest.Names(name, names); len(similar) > 0 {
		text += "; did you mean " + strings.Join(similar, " or ") + "?"
	} else {
		text += "; mcpvisor tools shows all tools"
	}
	return &cli.ExitError{Code: cli.ExitUsage, Report: cli.Report{Kind: mcpvisor.ErrUnknownTool, Outcome: mcpvisor.OutcomeNotSent, Server: server, Message: text}}
}

func (inv *invocation) printTools(data []byte) error {
	if inv.JSON {
		return cli.PrintIndented(inv.Out, data)
	}
	tools, err := table.ParseTools(data)
	if err != nil {
		return err
	}
	for i, t := range tools {
		if i > 0 {
			fmt.Fprintln(inv.Out)
		}
		if err := table.PrintTool(inv.Out, t); err != nil {
			return err
		}
	}
	return nil
}
