package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/records"
)

// recordsDir says where the records are.
type recordsDir struct {
	Records string `help:"Directory of the records (default: \"records\" of the configuration)." placeholder:"DIR" complete:"file"`
}

// find returns the directory, empty if the configuration has none, with the error that says so.
func (d *recordsDir) find(inv *invocation) (dir string, missing, err error) {
	if d.Records != "" {
		return d.Records, nil, nil
	}
	file, err := inv.LoadConfig()
	if err != nil {
		return "", nil, err
	}
	return file.Records, cli.UsageError("the configuration %s has no \"records\"; name the directory with --records DIR", file.Path), nil
}

// selection is what calls and events have in common.
type selection struct {
	recordsDir
	Since  string `help:"Only those since then: a duration such as 24h or 7d, or a time such as 2026-11-28 or 2026-11-28T15:04:05Z." placeholder:"WHEN"`
	Server string `help:"Only those of this server." placeholder:"NAME" complete:"server"`
	Last   int    `help:"Print the last N, at most 100000." short:"n" default:"100" placeholder:"N"`
	Live   bool   `help:"What mcpvisor run remembers, though there are records, too."`
}

const maxLast = 100_000

// fromRun reports whether to show what run remembers: there are no records, and filtered, no option needs them.
func (s *selection) fromRun(inv *invocation, filtered bool) (bool, error) {
	if s.Last < 1 || s.Last > maxLast {
		return false, cli.UsageError("--last %d is not within 1 and %d", s.Last, maxLast)
	}
	filtered = filtered || s.Since != ""
	if s.Live {
		if filtered || s.Records != "" {
			return false, cli.UsageError("--live shows all that mcpvisor run remembers; leave out what selects among records")
		}
		return true, nil
	}
	dir, missing, err := s.find(inv)
	if err == nil && dir == "" && filtered {
		err = missing
	}
	return dir == "", err
}

// read returns the selected records, the oldest first.
func (s *selection) read(inv *invocation, q records.Query) ([]records.Record, error) {
	q.Server, q.Last = cmp.Or(q.Server, s.Server), s.Last
	found := []records.Record{}
	err := s.each(inv, q, func(r records.Record) error {
		found = append(found, r)
		return nil
	})
	if err == nil && len(found) == s.Last {
		inv.Note("the last %s; --last N prints more, up to %d", display.Count(len(found), "record"), maxLast)
	}
	return found, err
}

// each calls f with the records since the time that the option says.
func (s *selection) each(inv *invocation, q records.Query, f func(records.Record) error) error {
	dir, missing, err := s.find(inv)
	if err == nil && dir == "" {
		err = missing
	}
	if err != nil {
		return err
	}
	if q.Since, err = parseSince(s.Since, time.Now()); err != nil {
		return err
	}
	q.Check = inv.Context.Err
	none := true
	err = records.Read(dir, q, func(r records.Record) error {
		none = false
		return f(r)
	})
	if errors.Is(err, os.ErrNotExist) {
		return cli.UsageError("there are no records in %s; mcpvisor run --records %s makes them", dir, plaintext.ShellWord(dir))
	}
	if err == nil && none && q.Server != "" {
		if file, bad := inv.LoadConfig(); bad == nil { // there may be records without it
			_, err = servers.SelectSpecs(file, []string{q.Server})
		}
	}
	return err
}

// print prints the selected records, each as row makes it, or what run remembers. noun is what one of them is.
func (s *selection) print(inv *invocation, filtered bool, remembered func(*invocation) error, q records.Query, noun, header string, row func(records.Record) []any) error {
	live, err := s.fromRun(inv, filtered)
	switch {
	case err != nil:
		return err
	case live:
		return remembered(inv)
	}
	found, err := s.read(inv, q)
	switch {
	case err != nil:
		return err
	case inv.JSON:
		return cli.PrintJSON(inv.Out, map[string]any{noun + "s": found})
	case len(found) == 0:
		inv.Note("no such %s was recorded", noun)
		return nil
	}
	rows := make([][]any, 0, len(found))
	for _, r := range found {
		rows = append(rows, row(r))
	}
	return inv.Table(header, rows)
}

// parseSince reads a duration before now, or a time; empty is the zero Time.
func parseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	var days int
	if n, err := fmt.Sscanf(text, "%dd", &days); n == 1 && err == nil && text == fmt.Sprintf("%dd", days) && days >= 0 {
		return now.AddDate(0, 0, -days), nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, cli.UsageError("--since %q is neither a duration nor a time; write 24h, 7d, 2026-11-28 or 2026-11-28T15:04:05Z", text)
}

// shownTime is the time of a record as the commands print it.
func shownTime(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05.000") }

type callsCmd struct {
	selection
	Tool      string `help:"Only calls of this tool, as in fs/read." placeholder:"TOOL" complete:"tool"`
	Client    string `help:"Only those of the client of this name." placeholder:"NAME"`
	Principal string `help:"Only those of this principal." placeholder:"NAME"`
	Unknown   bool   `help:"Only calls that the server may have executed, although they failed."`
}

// Run implements kong's command.
func (cmd *callsCmd) Run(inv *invocation) error {
	q := records.Query{Kinds: []records.Kind{records.KindCall}, Client: cmd.Client, Principal: cmd.Principal, Tool: cmd.Tool}
	if server, tool, ok := mcpvisor.SplitName(cmd.Tool); ok {
		q.Server, q.Tool = server, tool
	}
	if cmd.Unknown {
		q.Outcome = mcpvisor.OutcomeUnknown
	}
	return cmd.print(inv, cmd.Tool+cmd.Client+cmd.Principal != "" || cmd.Unknown, cmd.printRemembered, q, "call", "TIME\tSERVER\tTOOL\tCLIENT\tRESULT\tTOOK\tERROR", func(r records.Record) []any {
		target := r.Method + " " + r.Target
		if r.Method == "tools/call" {
			target = r.Target
		}
		return []any{shownTime(r.Time), r.Server, target, cmp.Or(r.Principal, r.Client, "-"), callResult(r), plaintext.Took(r.Took), r.Text}
	})
}

// callResult says how a call ended, in one or two words.
func callResult(r records.Record) string {
	switch {
	case r.ToolError:
		return "tool error"
	case r.ErrorKind == "":
		return "ok"
	case r.Outcome == mcpvisor.OutcomeUnknown:
		return string(r.ErrorKind) + ", unknown"
	}
	return string(r.ErrorKind)
}

type eventsCmd struct {
	selection
	Kind []string `help:"Only events of these kinds, as in changed, ready or down." sep:"," placeholder:"KIND"`
}

// Run implements kong's command.
func (cmd *eventsCmd) Run(inv *invocation) error {
	q := records.Query{Kinds: records.EventKinds()}
	for _, kind := range cmd.Kind {
		q.Events = append(q.Events, mcpvisor.EventKind(kind))
	}
	return cmd.print(inv, len(cmd.Kind) > 0, cmd.printRemembered, q, "event", "TIME\tEVENT\tWHAT", func(r records.Record) []any {
		return []any{shownTime(r.Time), cmp.Or(string(r.Event), string(r.Kind)), eventText(r)}
	})
}

// eventText describes a record that is no call.
func eventText(r records.Record) string {
	switch r.Kind { //nolint:exhaustive // the others have a text
	case records.KindStart:
		return "mcpvisor run begins to record"
	case records.KindEnd:
		return "mcpvisor run ends"
	case records.KindGap:
		return display.Count(r.Lost, "record") + " found no room, and were dropped"
	}
	return strings.TrimSpace(r.Text)
}

type auditCmd struct {
	Verify auditVerifyCmd `cmd:"" help:"Check that no record was changed, removed, inserted or moved since it was written. Names the first line that was; ends with 1 then."`
}

type auditVerifyCmd struct {
	recordsDir
	Anchor  string `help:"The anchor of the records (default: DIR.anchor)." placeholder:"FILE" complete:"file"`
	KeyFile string `help:"File with the key of the records." placeholder:"FILE" complete:"file"`
}

func (cmd *auditVerifyCmd) Run(inv *invocation) error {
	dir, missing, err := cmd.find(inv)
	if err == nil && dir == "" {
		err = missing
	}
	if err != nil {
		return err
	}
	key, err := cli.ReadKey(cmd.KeyFile)
	if err != nil {
		return err
	}
	report, err := records.Verify(dir, cmd.Anchor, key)
	if err != nil {
		return err
	}
	if inv.JSON {
		return cli.PrintJSON(inv.Out, report)
	}
	text := fmt.Sprintf("records %d to %d are as they were written; the anchor covers them up to %d", report.First, report.Last, report.Anchored)
	if report.Lost > 0 {
		text += "; " + display.Count(report.Lost, "record") + " found no room, and were dropped"
	}
	if report.Torn {
		text += "; the last line is not whole: it is being written, or a crash has left it"
	}
	_, err = fmt.Fprintln(inv.Out, text)
	return err
}
