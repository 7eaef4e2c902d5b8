package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/mcptest/chaos"
)

type chaosCmd struct {
	Servers  []string      `arg:"" optional:"" help:"Names of the servers; all without names." complete:"server" placeholder:"NAME"`
	Duration time.Duration `help:"How long servers get faults; their starts and ends are not included (default: 1m)." default:"1m" placeholder:"DURATION"`
	Seed     uint64        `help:"Repeats the faults of an earlier storm, whose output names it (default: a new one)."`
	Tool     []string      `help:"A tool to call, whatever it changes; may be repeated. Its server gets no other calls. Without it, tools are called that say they are read-only." placeholder:"SERVER/TOOL" sep:"none" complete:"tool"`
	Args     []string      `help:"The arguments of the tool of the --tool before it, as one JSON object; may be repeated." placeholder:"JSON" sep:"none"`
	Flood    int           `help:"How many calls a flood makes at once, at most 1000." default:"64"`
}

// Run implements kong's command. An interrupted command prints what it has found so far, and
// fails.
func (cmd *chaosCmd) Run(inv *invocation) error {
	calls, err := cmd.calls()
	if err != nil {
		return err
	}
	specs, err := inv.Specs(cmd.Servers...)
	if err != nil {
		return err
	}
	if running := inv.BesideRun("chaos starts copies of its servers, and touches no other process"); running != nil {
		running.Stop()
	}
	report, err := chaos.Run(inv.Context, specs, chaos.Options{Duration: cmd.Duration, Seed: cmd.Seed, Tools: calls, Flood: cmd.Flood,
		StartTimeout: inv.Wait, Progress: inv.sayStep})
	interrupted := errors.Is(err, context.Canceled)
	switch {
	case report.Schema == "": // it has not begun
		return cli.UsageError("%v", err)
	case err != nil && !interrupted:
		inv.Warn("", "mcpvisor: %v", err)
	}
	for i := range report.Servers {
		inConfigTerms(&report.Servers[i])
	}
	err = inv.Answer(report, func() error { return inv.printStorm(report) })
	switch {
	case err != nil:
		return err
	case interrupted:
		return &cli.ExitError{Code: cli.ExitFailed, Report: cli.Report{Kind: mcpvisor.ErrCanceled, Message: "interrupted; the findings are those until then"}}
	}
	return stormError(report)
}

// sayStep says which servers the storm waits for, and when it begins. The report has the faults and the
// findings.
func (inv *invocation) sayStep(s chaos.Step) {
	switch {
	case s.Fault != "" || s.Finding != "":
	case s.Server == "":
		inv.Note("%s", stormTerms(s.Text))
	default:
		inv.Note("%s: %s", s.Server, stormTerms(s.Text))
	}
}

// calls returns the tools that the user has named, with their arguments.
func (cmd *chaosCmd) calls() (calls []chaos.ToolCall, err error) {
	switch {
	case len(cmd.Args) > len(cmd.Tool):
		return nil, cli.UsageError("each --args needs a --tool before it; there are %d --args and %d --tool", len(cmd.Args), len(cmd.Tool))
	case cmd.Duration <= 0:
		return nil, cli.UsageError("--duration %v is not more than 0; write for instance --duration 30s", cmd.Duration)
	case cmd.Flood < 1 || cmd.Flood > 1000:
		return nil, cli.UsageError("--flood %d is not between 1 and 1000", cmd.Flood)
	}
	for i, tool := range cmd.Tool {
		call := chaos.ToolCall{Tool: tool}
		if i < len(cmd.Args) {
			call.Arguments = json.RawMessage(cmd.Args[i])
		}
		calls = append(calls, call)
	}
	return calls, nil
}

// stormTerms is cli.ConfigTerms for texts of package chaos, which name its options, too.
func stormTerms(text string) string {
	return cli.ConfigTerms(strings.NewReplacer("Options.StartTimeout", "--wait", "in Options.Tools", "with --tool and --args").Replace(text))
}

// inConfigTerms replaces the words of Go programs in what was found about a server.
func inConfigTerms(s *chaos.ServerReport) {
	for i := range s.Findings {
		f := &s.Findings[i]
		f.Text, f.Hint = stormTerms(f.Text), stormTerms(f.Hint)
		if f.Kind == chaos.FindingNotStarted && f.Hint == "" {
			f.Hint = "mcpvisor doctor explains it"
		}
	}
}

// stormError is the error of a storm that found something, or nil. Everything has been printed.
func stormError(report chaos.Report) error {
	code := cli.ExitOK
	for _, s := range report.Servers {
		switch {
		case slices.ContainsFunc(s.Findings, func(f chaos.Finding) bool { return f.Kind == chaos.FindingNotStarted }):
			code = max(code, cli.ExitUnavailable)
		case !s.Passed:
			code = max(code, cli.ExitFailed)
		}
	}
	if code == cli.ExitOK {
		return nil
	}
	return &cli.ExitError{Code: code}
}

var findingTexts = map[chaos.FindingKind]string{
	chaos.FindingNotStarted:   "did not start",
	chaos.FindingNotRestarted: "did not come back",
	chaos.FindingListsDiffer:  "changed its lists",
	chaos.FindingLeftBehind:   "left processes behind",
	chaos.FindingUnasked:      "sent unasked answers",
	chaos.FindingDied:         "ended by itself",
	chaos.FindingCallsHung:    "let calls hang",
	chaos.FindingNoAnswer:     "answered no call",
	chaos.FindingNotTested:    "was not tested",
}

// maxFindingText is the longest text of a finding, which may end with what to do about it.
const maxFindingText = 4 * table.MaxText

func (inv *invocation) printStorm(report chaos.Report) error {
	var b strings.Builder
	passed := 0
	for _, s := range report.Servers {
		level := "FAIL"
		switch {
		case s.Passed:
			level = "ok"
			passed++
		case s.Findings[0].Kind == chaos.FindingNotTested:
			level = "????"
		}
		fmt.Fprintf(&b, "%-4s  %s\n", level, s.Server)
		detail := func(label, text string) {
			if text != "" {
				fmt.Fprintf(&b, "      %-9s %s\n", label, table.OneLine(text, maxFindingText))
			}
		}
		for _, f := range s.Findings {
			text := findingTexts[f.Kind] + ": " + f.Text
			if f.Count > 1 {
				text += fmt.Sprintf(" (and %s)", display.Count(f.Count-1, "more time"))
			}
			detail("finding", text)
			for _, line := range f.Stderr {
				detail("stderr", line)
			}
			detail("advice", f.Hint)
		}
		detail("faults", countsText(s.Faults))
		detail("noticed", timesText(s.Noticed))
		detail("ready", timesText(s.Ready))
		detail("calls", callsText(s))
		detail("tools", strings.Join(s.Tools, ", "))
		for _, note := range s.Notes {
			detail("note", note)
		}
	}
	fmt.Fprintf(&b, "%d of %s passed; seed %d: --seed %d repeats these faults\n", passed, display.Count(len(report.Servers), "server"), report.Seed, report.Seed)
	_, err := inv.Out.Write([]byte(b.String()))
	return err
}

// countsText is empty without counts.
func countsText(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}

// timesText is about what followed the kills; empty without one.
func timesText(t chaos.Times) string {
	if t.Count == 0 {
		return ""
	}
	return fmt.Sprintf("%s after a kill, at most %s", plaintext.Duration(t.Median), plaintext.Duration(t.Max))
}

func callsText(s chaos.ServerReport) string {
	if s.Calls.OK == 0 && len(s.Calls.Failed) == 0 {
		return ""
	}
	text := fmt.Sprintf("%d answered", s.Calls.OK)
	if len(s.Tools) == 0 {
		text = fmt.Sprintf("its lists were read %s", display.Count(s.Calls.OK, "time"))
	}
	if s.Calls.ToolErrors > 0 {
		text += fmt.Sprintf(", %d of them with an error of the tool", s.Calls.ToolErrors)
	}
	if failed := countsText(s.Calls.Failed); failed != "" {
		text += "; failed: " + failed
	}
	return text
}
