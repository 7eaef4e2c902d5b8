package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/facts"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/web/api"
)

type attentionCmd struct{}

// Run implements kong's command. It prints what top and the page show under this title.
func (attentionCmd) Run(inv *invocation, c *servers.Set) error {
	status, err := c.Status(inv.Context)
	if err != nil {
		return err
	}
	err = inv.Answer(map[string]any{"attention": status.Attention}, func() error { return inv.printAttention(status) })
	if err == nil && slices.ContainsFunc(status.Attention, func(a api.Attention) bool { return a.Severity == api.SeverityError }) {
		err = &cli.ExitError{Code: cli.ExitUnavailable}
	}
	return err
}

func (inv *invocation) printAttention(status api.Status) error {
	var b strings.Builder
	for _, a := range status.Attention {
		about := cmp.Or(a.Server, strings.Join(a.Servers, ", "), "mcpvisor run")
		if a.Group != "" {
			about = "group " + a.Group
		}
		severity := fmt.Sprintf("%-7s", a.Severity)
		if table.Colored(inv.Out) {
			severity = table.Paint(severity, facts.ColorOf(a.Severity))
		}
		fmt.Fprintf(&b, "%s  %s: %s", severity, display.Line(about), display.Line(a.Text))
		if a.Since != nil {
			fmt.Fprintf(&b, " (%s ago)", plaintext.Duration(time.Since(*a.Since)))
		}
		for _, text := range a.More {
			fmt.Fprintf(&b, "\n         %s", display.Line(text))
		}
		fmt.Fprintf(&b, "\n         do: %s\n", display.Line(a.Action))
	}
	if len(status.Attention) == 0 {
		fmt.Fprintf(&b, "nothing needs attention; %s\n", display.Count(len(status.Names), "server"))
	}
	_, err := fmt.Fprint(inv.Out, b.String())
	return err
}
