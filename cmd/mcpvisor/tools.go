package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
	"github.com/mcpvisor/mcpvisor/internal/nearest"
	"github.com/mcpvisor/mcpvisor/internal/toolname"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

type toolsCmd struct {
	Name string `arg:"" optional:"" help:"Server, or tool as in fs/list_directory, or alias of a tool: show only these, with their parameters." placeholder:"SERVER[/TOOL]" complete:"target"`
}

func (cmd *toolsCmd) Run(inv *invocation) error {
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
	if !isToolName(name) {
		c, err := inv.openReady(name)
		if err != nil {
			return err
		}
		defer c.Stop()
		data, err := c.Tools(inv.Context, name)
		if err != nil {
			return err
		}
		return inv.printTools(data)
	}
	c, err := inv.OpenTool(name)
	if err != nil {
		return err
	}
	defer c.Stop()
	data, err := c.Tool(inv.Context, name)
	if err != nil {
		return err
	}
	if tools, err := table.ParseTools(data); err != nil || len(tools) == 0 {
		return inv.unknownTool(c, name)
	}
	return inv.printTools(data)
}

// isToolName reports whether a name is that of a tool, and not of a server.
func isToolName(name string) bool {
	return strings.Contains(name, "/") || strings.HasPrefix(name, toolname.AliasPrefix)
}

// openReady opens one server, which must become ready.
func (inv *invocation) openReady(name string) (*servers.Set, error) {
	c, err := inv.OpenServer(name)
	if err != nil || !c.Attached() {
		return c, err
	}
	server, err := c.Described(inv.Context, name)
	if s := server.Status; err == nil && s.State != supervisor.StateReady {
		err = cli.UnavailableError(s, "server %s is %s: %s; mcpvisor status shows when it is ready", name, s.State, inv.Reason(cli.StatusInConfigTerms(s)))
	}
	if err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

// unknownTool is the error about a tool that no server lists.
func (inv *invocation) unknownTool(c *servers.Set, name string) error {
	server, _, qualified := mcpvisor.SplitName(name)
	if qualified && c.Attached() {
		if described, err := c.Described(inv.Context, server); err != nil || described.Status.State != supervisor.StateReady {
			if err != nil {
				return err
			}
			s := cli.StatusInConfigTerms(described.Status)
			return cli.UnavailableError(s, "server %s is %s: %s", server, s.State, inv.Reason(s))
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
	return &cli.ExitError{Code: cli.ExitUsage, Report: cli.Report{Kind: mcpvisor.KindUnknownTool, Outcome: mcpvisor.OutcomeNotSent, Server: server, Message: text}}
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
