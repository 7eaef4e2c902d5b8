package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

type reloadCmd struct {
	DryRun bool `help:"Show what would change, and change nothing."`
}

func (cmd *reloadCmd) Run(inv *invocation) error {
	c, err := inv.AttachOnly("reload")
	if err != nil {
		return err
	}
	defer c.Stop()
	answer, err := c.Reload(inv.Context, cmd.DryRun)
	switch {
	case err != nil:
		return err
	case answer.Problem != "":
		return cli.UsageError("%s; mcpvisor run (pid %d) keeps its servers as they are", answer.Problem, c.Run.PID)
	}
	if inv.JSON {
		err = cli.PrintJSON(inv.Out, answer)
	} else {
		err = inv.printReload(answer)
	}
	if answer.GatewayProblem != "" {
		inv.Warn("", "%s; what hosts are offered is kept", answer.GatewayProblem)
	}
	return errors.Join(err, reloadResult(answer))
}

func (inv *invocation) printReload(answer control.Reload) error {
	var rows [][]any
	for _, c := range answer.Changes {
		note := c.Reason
		if c.Error != "" {
			note = c.Error
		}
		rows = append(rows, []any{c.Server, string(c.Action), note})
	}
	if len(rows) > 0 {
		if err := inv.Table("SERVER\tCHANGE\tNOTE", rows); err != nil {
			return err
		}
	}
	text := fmt.Sprintf("%s unchanged", display.Count(answer.Unchanged, "server"))
	if !answer.DryRun {
		text += ", reloaded in " + plaintext.Duration(time.Duration(answer.TookMs)*time.Millisecond)
	}
	_, err := fmt.Fprintln(inv.Out, text)
	return err
}

// reloadResult is nil if every entry is usable and every change has succeeded.
func reloadResult(answer control.Reload) error {
	switch {
	case slices.ContainsFunc(answer.Changes, func(c control.Change) bool { return c.Error != "" }):
		return &cli.ExitError{Code: cli.ExitFailed}
	case answer.GatewayProblem != "" || slices.ContainsFunc(answer.Changes, func(c control.Change) bool { return c.Reason != "" }):
		return &cli.ExitError{Code: cli.ExitUnavailable}
	}
	return nil
}
