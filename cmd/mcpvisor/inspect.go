package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

type inspectCmd struct {
	Server string `arg:"" help:"Name of the server." complete:"server"`
}

// Run implements kong's command. It prints the inputs of a lifecycle, oldest first, and the actors around it.
func (cmd *inspectCmd) Run(inv *invocation, c *servers.Set) error {
	found, err := c.Inspect(inv.Context, cmd.Server)
	switch {
	case errors.Is(err, mcpvisor.ErrUnknownServer):
		return c.UnknownServer(cmd.Server)
	case err != nil:
		return err
	}
	for i := range found.Steps {
		found.Steps[i].Cause = cli.CauseInConfigTerms(found.Steps[i].Cause)
	}
	if inv.JSON {
		return cli.PrintJSON(inv.Out, found)
	}
	var rows [][]any
	for _, s := range found.Steps {
		state, cause := string(s.To), ""
		if s.From != "" && s.From != s.To {
			state = string(s.From) + " > " + state
		}
		if s.Cause != nil {
			cause = s.Cause.Describe()
		}
		rows = append(rows, []any{s.Time.Format("2006-01-02 15:04:05.000"), s.Input, state, s.Epoch, strings.Join(s.Effects, ", "), cause})
	}
	if err := inv.Table("TIME\tINPUT\tSTATE\tEPOCH\tEFFECTS\tCAUSE", rows); err != nil {
		return err
	}
	var actors []string
	for _, kind := range slices.Sorted(maps.Keys(found.Actors)) {
		actors = append(actors, fmt.Sprintf("%d %s", found.Actors[kind], kind))
	}
	_, err = fmt.Fprintf(inv.Out, "\n%s is %s, registration %d\nactors: %s; %s for the manager\n",
		found.Server, found.State, found.Gen, strings.Join(actors, ", "), display.Count(found.Inbox, "message"))
	return err
}
