package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
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
