package main

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/facts"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/records"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// toolStats are the statistics of one tool of mcpvisor run, as tools --stats prints them.
type toolStats struct {
	api.ToolStats
	// Failures counts the calls that failed, and those whose tool reports an error.
	Failures int64 `json:"failures"`
	// Tokens estimates what the definition costs a model; 0 for a tool that is not listed now.
	Tokens int `json:"tokens"`
}

// toolOrders are the values of --sort. All but "name" put the most first.
var toolOrders = map[string]func(a, b toolStats) int{
	"time": func(a, b toolStats) int {
		return cmp.Compare(float64(b.Mean)*float64(b.Calls), float64(a.Mean)*float64(a.Calls))
	},
	"calls":    func(a, b toolStats) int { return cmp.Compare(b.Calls, a.Calls) },
	"p95":      func(a, b toolStats) int { return cmp.Compare(b.P95, a.P95) },
	"failures": func(a, b toolStats) int { return cmp.Compare(b.Failures, a.Failures) },
	"tokens":   func(a, b toolStats) int { return cmp.Compare(b.Tokens, a.Tokens) },
	"name":     func(toolStats, toolStats) int { return 0 },
}

// printStats prints how often the tools of mcpvisor run were called, how these calls ended, how long they took, and what
// the definitions cost a model: of all tools that are listed or were called, or of those that the command names.
func (cmd *toolsCmd) printStats(inv *invocation) error {
	if cmd.Since+cmd.Records != "" {
		return cmd.printRecorded(inv)
	}
	c, err := inv.AttachOnly("tools --stats")
	if err != nil {
		return err
	}
	defer c.Stop()
	names, one := []string{cmd.Name}, ""
	if server, _, qualified := strings.Cut(cmd.Name, "/"); qualified {
		names, one = []string{server}, cmd.Name
	} else if cmd.Name == "" {
		status, err := c.Status(inv.Context)
		if err != nil {
			return err
		}
		names = status.Names
	}
	all := []toolStats{}
	for _, name := range names {
		server, err := c.Described(inv.Context, name)
		if err != nil {
			return err
		}
		listed, err := c.Catalog(inv.Context, name)
		if err != nil {
			return err
		}
		for _, s := range server.Tools {
			if s.Calls > 0 || s.Refused > 0 {
				all = append(all, toolStats{ToolStats: s, Failures: s.ToolErrors + facts.FailedCalls(&s)})
			}
		}
		for _, t := range listed.Tools {
			i := slices.IndexFunc(all, func(s toolStats) bool { return s.Name == t.Name })
			if i < 0 {
				i = len(all)
				all = append(all, toolStats{ToolStats: api.ToolStats{Server: name, Name: t.Name, OriginalName: t.OriginalName}})
			}
			all[i].Tokens = t.Tokens
		}
	}
	if one != "" {
		all = slices.DeleteFunc(all, func(s toolStats) bool { return s.Name != one })
		if len(all) == 0 {
			return inv.unknownTool(c, one)
		}
	}
	return cmd.show(inv, all, display.Count(len(names), "server")+", and no tool is listed or was called")
}

// printRecorded is printStats of recorded calls, of this run and of earlier ones. Tools that were not called are left out.
func (cmd *toolsCmd) printRecorded(inv *invocation) error {
	q := records.Query{Kinds: []records.Kind{records.KindCall}, Server: cmd.Name}
	if server, tool, ok := mcpvisor.SplitName(cmd.Name); ok {
		q.Server, q.Tool = server, tool
	}
	byName, took := map[string]*toolStats{}, map[string][]time.Duration{}
	err := (&selection{recordsDir: cmd.recordsDir, Since: cmd.Since}).each(inv, q, func(r records.Record) error {
		if r.Method != "tools/call" || r.ErrorKind == mcpvisor.ErrUnknownTool { // a name that no server has
			return nil
		}
		name := mcpvisor.Qualify(r.Server, r.Target)
		s := byName[name]
		if s == nil {
			s = &toolStats{ToolStats: api.ToolStats{Server: r.Server, Name: name, OriginalName: r.Target, Failed: map[mcpvisor.ErrorKind]int64{}}}
			byName[name] = s
		}
		if r.Outcome == mcpvisor.OutcomeNotSent {
			s.Refused++
			return nil
		}
		s.Calls++
		s.Mean += (r.Took - s.Mean) / time.Duration(s.Calls)
		took[name] = append(took[name], r.Took)
		if r.Outcome == mcpvisor.OutcomeUnknown {
			s.Unknown++
		}
		switch {
		case r.ErrorKind != "":
			s.Failures++
			s.Failed[r.ErrorKind]++
		case r.ToolError:
			s.Failures++
			s.ToolErrors++
		}
		return nil
	})
	if err != nil {
		return err
	}
	all := []toolStats{}
	for name, s := range byName {
		if d := took[name]; len(d) > 0 {
			slices.Sort(d)
			share := func(percent int) time.Duration { return d[(len(d)*percent+99)/100-1] }
			s.P50, s.P95, s.P99, s.Max = share(50), share(95), share(99), share(100)
		}
		all = append(all, *s)
	}
	return cmd.show(inv, all, "no call of a tool was recorded since then")
}

// show prints statistics in the order that the command names. nothing says why there are none.
func (cmd *toolsCmd) show(inv *invocation, all []toolStats, nothing string) error {
	slices.SortFunc(all, func(a, b toolStats) int { return cmp.Or(toolOrders[cmd.Sort](a, b), strings.Compare(a.Name, b.Name)) })
	if inv.JSON {
		return cli.PrintJSON(inv.Out, map[string]any{"tools": all})
	}
	var rows [][]any
	for i := range all {
		s := &all[i]
		rows = append(rows, []any{s.Name, s.Calls, count(s.ToolErrors, table.Warning), count(facts.FailedCalls(&s.ToolStats), table.Warning), count(s.Unknown, table.Failure), s.Refused,
			plaintext.Took(s.P50), plaintext.Took(s.P95), plaintext.Took(s.Max), s.Tokens})
	}
	if err := inv.Table("TOOL\tCALLS\tTOOL ERR\tFAILED\tUNKNOWN\tREFUSED\tP50\tP95\tMAX\tTOKENS", rows); err != nil {
		return err
	}
	if len(rows) == 0 {
		inv.Note("%s", nothing)
	}
	return nil
}

// count is a cell that is loud if it is not 0.
func count(n int64, loud table.Color) table.Cell {
	c := table.Cell{Value: n}
	if n > 0 {
		c.Color = loud
	}
	return c
}
