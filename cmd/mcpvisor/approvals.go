package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/web/api"
)

type approvalsCmd struct{}

func (cmd *approvalsCmd) Run(inv *invocation, c *servers.Set) error {
	open, err := c.Approvals(inv.Context)
	if err != nil {
		return err
	}
	if inv.JSON {
		return cli.PrintJSON(inv.Out, open)
	}
	if len(open.Approvals) == 0 {
		inv.Note("no call waits for a decision")
		return nil
	}
	rows := make([][]any, 0, len(open.Approvals))
	for _, a := range open.Approvals {
		rows = append(rows, []any{a.ID, cmp.Or(a.Client, "-"), cmp.Or(a.Principal, "-"), mcpvisor.Qualify(a.Server, a.Tool), plaintext.Duration(time.Until(a.Expires)), a.Rule, display.Escaped(strings.TrimSpace(string(a.Arguments) + " " + string(a.InputResponses)))})
	}
	return inv.Table("ID\tCLIENT\tPRINCIPAL\tTOOL\tLEFT\tASKED BY\tARGUMENTS", rows)
}

type approveCmd struct {
	IDs []string `arg:"" help:"IDs of the calls, as mcpvisor approvals shows them." name:"id"`
}

func (cmd *approveCmd) Run(inv *invocation, c *servers.Set) error {
	return inv.decide(c, "approve", cmd.IDs, true, "")
}

type denyCmd struct {
	IDs    []string `arg:"" help:"IDs of the calls, as mcpvisor approvals shows them." name:"id"`
	Reason string   `help:"Why. The client that calls is told, so a language model sees it." placeholder:"TEXT"`
}

func (cmd *denyCmd) Run(inv *invocation, c *servers.Set) error {
	return inv.decide(c, "deny", cmd.IDs, false, cmd.Reason)
}

// decide decides about calls that wait, in turn, until one of them waits no more.
func (inv *invocation) decide(c *servers.Set, command string, ids []string, approve bool, reason string) error {
	answers := []api.DecisionAnswer{}
	for _, id := range ids {
		answer, err := c.Decide(inv.Context, api.DecisionRequest{ID: id, Approve: approve, Reason: reason})
		if err != nil {
			return fmt.Errorf("%s %s: %w", command, display.Line(id), err)
		}
		answers = append(answers, answer)
		if !inv.JSON {
			word := map[bool]string{true: "approved", false: "denied"}[approve]
			if _, err := fmt.Fprintf(inv.Out, "%s is %s\n", display.Line(id), word); err != nil {
				return err
			}
		}
	}
	if inv.JSON {
		return cli.PrintJSON(inv.Out, map[string]any{"decided": answers})
	}
	return nil
}
