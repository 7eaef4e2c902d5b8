package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/facts"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// attach attaches to a run that has the server, if one is named.
func (s *selection) attach(inv *invocation, command string) (*servers.Set, error) {
	c, err := inv.AttachOnly(command)
	if err == nil && s.Server != "" {
		if _, err = c.Described(inv.Context, s.Server); err != nil {
			c.Stop()
		}
	}
	return c, err
}

// last returns the last ones of what is about the server; all of them if their number is not limited.
func last[T any](h *selection, all []T, server func(*T) string) []T {
	all = slices.DeleteFunc(all, func(one T) bool { return h.Server != "" && server(&one) != h.Server })
	if h.Last > 0 {
		all = all[max(len(all)-h.Last, 0):]
	}
	return all
}

// printRemembered prints calls in flight, the oldest first, and then those that have ended, the last first.
func (cmd *callsCmd) printRemembered(inv *invocation) error {
	c, err := cmd.attach(inv, "calls")
	if err != nil {
		return err
	}
	defer c.Stop()
	calls, err := c.Calls(inv.Context, 0)
	if err != nil {
		return err
	}
	server := func(c *monitor.CallRecord) string { return c.Server }
	calls.InFlight = last(&selection{Server: cmd.Server}, calls.InFlight, func(c *monitor.CallInFlight) string { return c.Server })
	calls.Tasks = last(&selection{Server: cmd.Server}, calls.Tasks, func(t *mcpvisor.OpenTask) string { return t.Server })
	calls.Unfinished = last(&selection{Server: cmd.Server}, calls.Unfinished, func(e *mcpvisor.JournalEntry) string { return e.Server })
	calls.Recent, calls.Unknown = last(&cmd.selection, calls.Recent, server), last(&cmd.selection, calls.Unknown, server)
	if inv.JSON {
		return cli.PrintJSON(inv.Out, calls)
	}
	now, rows := time.Now(), [][]any{}
	for _, c := range calls.InFlight {
		state := "in flight"
		if c.Queued {
			state = "queued, not sent"
		}
		rows = append(rows, []any{"-", plaintext.Took(now.Sub(c.Began)), c.Server + "/" + cmp.Or(c.Target, c.Method), state, "-"})
	}
	for _, t := range calls.Tasks {
		rows = append(rows, []any{"-", plaintext.Took(now.Sub(t.Began)), t.Server + "/" + t.Tool, "task, " + t.State, "-"})
	}
	for _, e := range calls.Unfinished {
		outcome := table.Cell{Value: "interrupted in an earlier run, may have been executed", Color: table.Failure}
		if e.State == mcpvisor.JournalTask {
			outcome = table.Cell{Value: "task of an earlier run, no caller waits for it"}
		}
		rows = append(rows, []any{plaintext.Duration(now.Sub(e.Began)), "-", e.Server + "/" + e.Tool, outcome, cmp.Or(e.Principal, "-")})
	}
	// Calls of unknown outcome are kept for longer.
	ended := append(calls.Recent, slices.DeleteFunc(slices.Clone(calls.Unknown), func(u monitor.CallRecord) bool {
		return slices.ContainsFunc(calls.Recent, func(c monitor.CallRecord) bool { return c.Seq == u.Seq })
	})...)
	slices.SortFunc(ended, func(a, b monitor.CallRecord) int { return cmp.Compare(b.Seq, a.Seq) })
	for _, c := range ended {
		outcome, color := facts.Outcome(&c)
		rows = append(rows, []any{plaintext.Duration(now.Sub(c.Began.Add(c.Took))), plaintext.Took(c.Took), c.Server + "/" + cmp.Or(c.Target, c.Method), table.Cell{Value: outcome, Color: color}, cmp.Or(c.Client, "-")})
	}
	return inv.Table("ENDED\tTOOK\tCALL\tOUTCOME\tCLIENT", rows)
}

// printRemembered prints what has changed in short, the last at the end.
func (cmd *eventsCmd) printRemembered(inv *invocation) error {
	c, err := cmd.attach(inv, "events")
	if err != nil {
		return err
	}
	defer c.Stop()
	happened, err := c.Summaries(inv.Context, 0)
	if err != nil {
		return err
	}
	happened.Summaries = last(&cmd.selection, happened.Summaries, func(s *api.EventSummary) string { return s.Last.Server })
	if inv.JSON {
		return cli.PrintJSON(inv.Out, happened)
	}
	var rows [][]any
	for _, s := range happened.Summaries {
		rows = append(rows, []any{s.Last.Time.Local().Format(time.DateTime), table.Cell{Value: s.Text, Color: facts.ColorOf(s.Last.Severity)}})
	}
	return inv.Table("TIME\tEVENT", rows)
}
