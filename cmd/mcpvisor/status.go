package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/attach"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/facts"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/gateway"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// These are states of entries beside those of servers.
const (
	stateNotConfigured supervisor.State = "not configured" // it is not a usable server
	stateNotStarted    supervisor.State = "not started"    // the command was interrupted before
)

type statusCmd struct {
	Servers []string     `arg:"" optional:"" help:"Names of servers: show only these." complete:"server"`
	Sort    string       `help:"Order of the servers: ${enum}. All but name put the most first." enum:"name,memory,tokens,calls,restarts" default:"name" complete:"name,memory,tokens,calls,restarts" placeholder:"KEY"`
	Timeout timeoutValue `help:"How long --wait ready and --wait any wait (default: about as long as a start may take, 95s)." placeholder:"DURATION"`
}

func (cmd *statusCmd) Run(inv *invocation) error {
	if cmd.Timeout.Duration > 0 && inv.WaitFor == "" {
		return cli.UsageError("--timeout is about --wait ready and --wait any; write for instance --wait ready --timeout 30s")
	}
	slices.Sort(cmd.Servers)
	cmd.Servers = slices.Compact(cmd.Servers)
	c, err := inv.Attach()
	if inv.WaitFor != "" && errors.Is(err, attach.ErrNotRunning) && !inv.Fresh {
		c, err = cmd.awaitRun(inv)
	}
	switch {
	case err == nil:
		defer c.Stop()
		return cmd.showRunning(inv, c)
	case errors.Is(err, attach.ErrNotRunning):
		return cmd.showCopies(inv)
	}
	return err
}

// showCopies prints the states of copies of the servers. An interrupted command prints the
// states so far, and fails.
func (cmd *statusCmd) showCopies(inv *invocation) error {
	file, err := inv.LoadConfig(cmd.Servers...)
	if err != nil {
		return err
	}
	all := unusableEntries(servers.Unusable(file))
	specs := file.Specs()
	if len(cmd.Servers) > 0 {
		unusable := cmd.selected(all)
		named := slices.DeleteFunc(slices.Clone(cmd.Servers), func(name string) bool {
			return slices.ContainsFunc(unusable, func(e statusEntry) bool { return e.Name == name })
		})
		all, specs = unusable, nil
		if len(named) > 0 {
			if specs, err = servers.SelectSpecs(file, named); err != nil {
				return err
			}
		}
	}
	var interrupted error
	if len(specs) > 0 || len(all) == 0 {
		servers, err := inv.serverEntries(file, specs)
		switch {
		case errors.Is(err, cli.ErrInterrupted):
			interrupted = err
		case err != nil:
			return err
		}
		all = append(all, servers...)
		sortEntries(all)
	}
	if err := cmd.print(inv, all, nil, nil); err != nil {
		return err
	}
	if interrupted != nil {
		return interrupted
	}
	return inv.statusResult(all)
}

// selected returns the entries that the command names, or all if it names none.
func (cmd *statusCmd) selected(all []statusEntry) []statusEntry {
	if len(cmd.Servers) == 0 {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(e statusEntry) bool { return !slices.Contains(cmd.Servers, e.Name) })
}

// statusResult is nil if all servers are ready, at rest, or stopped; with --wait any, if one can be called.
func (inv *invocation) statusResult(all []statusEntry) error {
	if inv.WaitFor == waitAny && slices.ContainsFunc(all, func(e statusEntry) bool { return e.State == supervisor.StateReady || control.IsAtRest(e.State) }) {
		return nil
	}
	if slices.ContainsFunc(all, func(e statusEntry) bool { return !servers.IsHealthy(e.State) || e.Outdated != "" }) {
		return &cli.ExitError{Code: cli.ExitUnavailable}
	}
	return nil
}

// showRunning prints the states of the servers of a running `mcpvisor run`. It waits for
// them only as --wait says.
func (cmd *statusCmd) showRunning(inv *invocation, c *servers.Set) error {
	all, err := cmd.runningEntries(inv, c)
	if err != nil {
		return err
	}
	for _, name := range cmd.Servers { // all of them or none
		if !slices.Contains(c.Run.Servers, name) && !slices.ContainsFunc(all, func(e statusEntry) bool { return e.Name == name }) {
			return c.UnknownServer(name)
		}
	}
	switch {
	case inv.WaitFor != "":
		err = cmd.awaitReady(inv, c)
	case inv.Wait > 0:
		err = inv.AwaitSettled(c, cmd.Servers)
	}
	if err == nil && (inv.WaitFor != "" || inv.Wait > 0) {
		all, err = cmd.runningEntries(inv, c)
	}
	if err != nil {
		return err
	}
	var groups []mcpvisor.GroupStatus
	if len(cmd.Servers) == 0 {
		status, err := c.Status(inv.Context)
		if err != nil {
			return err
		}
		groups = status.Groups
	}
	if err := cmd.print(inv, all, groups, c); err != nil {
		return err
	}
	return inv.statusResult(all)
}

// runningEntries returns the current states of the servers of a running `mcpvisor run`, and
// the entries of its file that are not usable.
func (cmd *statusCmd) runningEntries(inv *invocation, c *servers.Set) (all []statusEntry, err error) {
	present, err := c.Statuses(inv.Context)
	if err != nil {
		return nil, err
	}
	now, none, memory := time.Now(), c.OnNoNode(inv.Context), map[string]*int64{}
	if used, err := c.Usage(inv.Context); err == nil {
		for _, u := range used.Servers {
			memory[u.Server] = u.MemoryBytes
		}
	}
	for _, s := range present {
		e := statusEntry{ServerStatus: s, Entry: c.Run.Entries[s.Name], Reason: runningReason(s, present, now)}
		e.MemoryBytes = memory[s.Name]
		if why := none[s.Name]; why != "" && !servers.IsHealthy(s.State) {
			e.Reason = "no node runs it: " + why
		}
		for _, u := range c.Run.Unusable {
			if u.Name == s.Name {
				e = unusableEntries([]control.Unusable{u})[0]
			}
		}
		for _, u := range c.Run.Kept {
			if u.Name == s.Name {
				e.Outdated = "its entry cannot be used, so it runs by the earlier one: " + u.Reason
			}
		}
		for _, w := range c.Run.Withheld {
			if w.Server == s.Name {
				e.Withheld = append(e.Withheld, w)
			}
		}
		all = append(all, e)
	}
	all = cmd.selected(all)
	sortEntries(all)
	return all, nil
}

// runningReason says in one line why a server of a running `mcpvisor run` is not ready: what
// it waits for, when it is tried again, and why it is down.
func runningReason(s mcpvisor.ServerStatus, all []mcpvisor.ServerStatus, now time.Time) string {
	var parts []string
	switch {
	case s.State == supervisor.StateReady:
		return ""
	case servers.IsHealthy(s.State):
		return servers.RestText(s)
	case s.State == supervisor.StateWaiting:
		return servers.WaitsText(s, all)
	}
	if waits := waitsFor[s.State]; waits != "" {
		parts = append(parts, "starting, "+plaintext.Duration(now.Sub(s.Since))+", waits for "+waits)
	}
	if s.RetryAt != nil {
		parts = append(parts, "next try in "+plaintext.Duration(s.RetryAt.Sub(now)))
	}
	if s.LastCause != nil {
		parts = append(parts, s.LastCause.Describe())
	}
	return strings.Join(parts, ": ")
}

// waitsFor is what a server that is starting has not sent yet.
var waitsFor = map[supervisor.State]string{
	supervisor.StateConnecting:  "its first answer",
	supervisor.StateDiscovering: "its lists of tools, resources and prompts",
}

func sortEntries(all []statusEntry) {
	slices.SortStableFunc(all, func(a, b statusEntry) int { return strings.Compare(a.Name, b.Name) })
}

// serverEntries starts servers, waits for them, and stops them. The entries are the
// states before the stop, also beside an cli.ErrInterrupted.
func (inv *invocation) serverEntries(file *config.File, specs []mcpvisor.ServerSpec) (all []statusEntry, err error) {
	c, stop, err := inv.StartServers(file, specs)
	switch {
	case errors.Is(err, cli.ErrInterrupted):
		for _, spec := range specs {
			e := statusEntry{Reason: "interrupted before it was started"}
			e.Name, e.State, e.Transport = spec.Name, stateNotStarted, spec.TransportKind()
			all = append(all, e)
		}
		return all, err
	case err != nil:
		return nil, err
	}
	defer stop()
	err = inv.AwaitStarts(c)
	return inv.entriesOf(file, c), err
}

func (inv *invocation) entriesOf(file *config.File, c *servers.Copies) (all []statusEntry) {
	for _, s := range c.Status() {
		e := statusEntry{ServerStatus: s}
		if entry := servers.EntryName(file, s.Name); entry != s.Name {
			e.Entry = entry
		}
		if s.State != supervisor.StateReady {
			e.Reason = inv.Reason(s)
		}
		all = append(all, e)
	}
	return all
}

// statusEntry is one server, or one entry of the file that is not a usable server.
type statusEntry struct {
	mcpvisor.ServerStatus
	// Entry is the name in the file, if the server's name is derived from it.
	Entry string `json:"entry,omitempty"`
	// MemoryBytes is the resident memory of its processes, if it is known.
	MemoryBytes *int64 `json:"memoryBytes,omitempty"`
	// Reason says why the server is not ready, in one line.
	Reason string `json:"reason,omitempty"`
	// Withheld are tools and prompts of the server that hosts are not offered.
	Withheld []gateway.Withheld `json:"withheld,omitempty"`
	// Outdated says why the server runs by an earlier version of its entry.
	Outdated string `json:"outdated,omitempty"`
}

// forJSON returns the entry as --json shows it.
func (e *statusEntry) forJSON() any {
	if e.State != stateNotConfigured && e.State != stateNotStarted {
		return e
	}
	return struct {
		Name   string           `json:"name"`
		State  supervisor.State `json:"state"`
		Reason string           `json:"reason"`
	}{e.Name, e.State, e.Reason}
}

// unusableEntries returns the entries that are not usable servers.
func unusableEntries(unusable []control.Unusable) (all []statusEntry) {
	for _, u := range unusable {
		e := statusEntry{Reason: u.Reason}
		e.Name, e.State, e.Transport = u.Name, stateNotConfigured, "-"
		all = append(all, e)
	}
	return all
}

// statusOrders are the values of --sort: the servers that have most of it come first. Those without one are by name.
var statusOrders = map[string]func(*statusEntry) int64{
	"memory": func(e *statusEntry) int64 {
		if e.MemoryBytes == nil {
			return -1
		}
		return *e.MemoryBytes
	},
	"tokens":   func(e *statusEntry) int64 { return int64(e.Catalog.Tokens) },
	"calls":    func(e *statusEntry) int64 { return e.Calls.Total },
	"restarts": func(e *statusEntry) int64 { return int64(e.Restarts) },
}

// print prints the page of a server that the command names alone, else the table. c is nil for copies.
func (cmd *statusCmd) print(inv *invocation, all []statusEntry, groups []mcpvisor.GroupStatus, c *servers.Set) error {
	if order := statusOrders[cmd.Sort]; order != nil {
		slices.SortStableFunc(all, func(a, b statusEntry) int { return cmp.Compare(order(&b), order(&a)) })
	}
	var one *facts.Subject
	if len(cmd.Servers) == 1 && len(all) == 1 {
		var err error
		if one, err = inv.subjectOf(&all[0], c); err != nil {
			return err
		}
	}
	if inv.JSON {
		list := make([]any, 0, len(all))
		for _, e := range all {
			list = append(list, e.forJSON())
		}
		answer := map[string]any{"servers": list}
		if len(groups) > 0 {
			answer["groups"] = groups
		}
		if c != nil {
			answer["run"] = map[string]any{"pid": c.Run.PID, "started": c.Run.Started, "url": c.Run.URL}
		}
		if one != nil && c != nil {
			answer["attention"], answer["stderr"], answer["earlier"] = one.About(), one.Server.Stderr, append([]api.EventSummary{}, one.Earlier...)
		}
		return cli.PrintJSON(inv.Out, answer)
	}
	if one != nil {
		return inv.printPage(&all[0], one)
	}
	if c != nil {
		if err := inv.printRunning(all); err != nil || len(groups) == 0 {
			return err
		}
		return inv.printGroups(groups)
	}
	rows := make([][]any, 0, len(all))
	for _, s := range all {
		protocol := "-"
		if s.Session != nil && s.Session.ProtocolVersion != "" {
			protocol = s.Session.ProtocolVersion
		}
		rows = append(rows, []any{s.Name, stateCell(s.State), s.Transport, protocol, s.Catalog.Tools, s.Catalog.Tokens,
			s.Catalog.Resources + s.Catalog.Templates, s.Catalog.Prompts, s.note()})
	}
	return inv.Table("SERVER\tSTATE\tTRANSPORT\tPROTOCOL\tTOOLS\tTOKENS\tRESOURCES\tPROMPTS\tNOTE", rows)
}

// printRunning prints servers that run for long: since when they are ready or not, how
// often they were restarted, what they are doing.
func (inv *invocation) printRunning(all []statusEntry) error {
	now := time.Now()
	rows := make([][]any, 0, len(all))
	for _, s := range all {
		since, pid, memory := "-", "-", "-"
		if s.MemoryBytes != nil {
			memory = plaintext.Memory(*s.MemoryBytes)
		}
		if at := api.Since(&s.ServerStatus); !at.IsZero() {
			since = plaintext.Duration(now.Sub(at))
		}
		if s.Session != nil && s.Session.PID != 0 {
			pid = strconv.Itoa(s.Session.PID)
		}
		if n := len(s.Copies); n > 0 {
			pid += fmt.Sprintf(" and %d more", n)
		}
		rows = append(rows, []any{s.Name, stateCell(s.State), since, s.Restarts, pid, memory, s.Catalog.Tools, s.Catalog.Tokens, s.Calls.Total, s.Calls.InFlight, s.note()})
	}
	return inv.Table("SERVER\tSTATE\tFOR\tRESTARTS\tPID\tMEMORY\tTOOLS\tTOKENS\tCALLS\tIN FLIGHT\tNOTE", rows)
}

// printGroups prints groups: in which state each is, and why one has failed.
func (inv *invocation) printGroups(groups []mcpvisor.GroupStatus) error {
	rows := make([][]any, 0, len(groups))
	for _, g := range groups {
		var notes []string
		if g.Parent != "" {
			notes = append(notes, "in "+g.Parent)
		}
		if len(g.After) > 0 {
			notes = append(notes, "after "+strings.Join(g.After, ", "))
		}
		if g.Cause != nil {
			notes = append(notes, g.Cause.Describe())
		}
		rows = append(rows, []any{g.Name, groupCell(g.State), string(g.Strategy), strings.Join(g.Members, ", "), strings.Join(notes, "; ")})
	}
	if _, err := fmt.Fprintln(inv.Out); err != nil {
		return err
	}
	return inv.Table("GROUP\tSTATE\tSTRATEGY\tMEMBERS\tNOTE", rows)
}

func groupCell(state string) table.Cell {
	c := table.Cell{Value: state, Color: facts.StateColor(facts.GroupState(state))}
	if state == "blocked" {
		c.Color = table.Warning
	}
	return c
}

func isGuarded(w mcpvisor.Warning) bool { return w.Guarded }

// note is the last cell of the entry's row: the most important thing about it.
func (e *statusEntry) note() string {
	costs := servers.CostText(&e.ServerStatus)
	switch n := len(e.Catalog.Warnings); {
	case e.Reason != "":
		return e.Reason
	case e.Outdated != "":
		return e.Outdated
	case len(e.Withheld) == 1:
		return fmt.Sprintf("the %s %q is not offered to hosts: %s", e.Withheld[0].Kind, e.Withheld[0].Name, e.Withheld[0].Reason)
	case len(e.Withheld) > 1:
		return fmt.Sprintf("%d tools and prompts are not offered to hosts, as %q: %s; see --json", len(e.Withheld), e.Withheld[0].Name, e.Withheld[0].Reason)
	case slices.ContainsFunc(e.Catalog.Warnings, isGuarded):
		return e.Catalog.Warnings[slices.IndexFunc(e.Catalog.Warnings, isGuarded)].Text
	case e.Session != nil && e.Session.Deprecated != "":
		return "deprecated transport HTTP+SSE; see --json"
	case costs != "":
		return costs
	case n > 0:
		return display.Count(n, "warning") + "; see --json"
	case e.Entry != "":
		return fmt.Sprintf("entry %q of the file", e.Entry)
	case e.Session != nil && e.Session.Node != "":
		return "on node " + e.Session.Node
	}
	return ""
}

func stateCell(s supervisor.State) table.Cell {
	if s == servers.StateFailed || s == stateNotConfigured {
		return table.Cell{Value: s, Color: table.Failure}
	}
	return table.Cell{Value: s, Color: facts.StateColor(s)}
}

// These are the conditions that --wait of status may name.
const (
	waitReady = "ready" // all servers are ready
	waitAny   = "any"   // one server is ready
)

// waitValue is the value of --wait: a duration, or what to wait for.
type waitValue struct {
	duration  time.Duration
	condition string
}

func (w *waitValue) UnmarshalText(text []byte) (err error) {
	switch string(text) {
	case waitReady, waitAny:
		w.condition = string(text)
		return nil
	}
	if w.duration, err = time.ParseDuration(string(text)); err != nil {
		return errors.New("must be a duration such as 30s; for status also ready or any")
	}
	return nil
}

// timeoutValue is the value of --timeout: a duration that is more than 0.
type timeoutValue struct{ time.Duration }

func (t *timeoutValue) UnmarshalText(text []byte) (err error) {
	if t.Duration, err = time.ParseDuration(string(text)); err != nil || t.Duration <= 0 {
		return errors.New("must be a duration such as 30s, and more than 0; leave it out for the default")
	}
	return nil
}

// runInterval is how often a command looks for a `mcpvisor run` that it waits for.
const runInterval = 50 * time.Millisecond

// timeout is how long --wait ready and --wait any wait.
func (cmd *statusCmd) timeout() time.Duration {
	if cmd.Timeout.Duration > 0 {
		return cmd.Timeout.Duration
	}
	return defaults.StartTimeout + defaults.ListTimeout + servers.StartSlack
}

// awaitRun waits for a `mcpvisor run`, because a script that has just started one cannot know
// when it can be reached. The time it takes counts.
func (cmd *statusCmd) awaitRun(inv *invocation) (*servers.Set, error) {
	began := time.Now()
	noted := false
	for {
		took := time.Since(began)
		if took >= cmd.timeout() {
			return inv.AttachOnly("--wait " + inv.WaitFor + " without --fresh")
		}
		if took >= servers.NoticeDelay && !noted {
			noted = true
			inv.Note("waiting for mcpvisor run of %s (up to %v)", inv.Sources, cmd.timeout())
		}
		if backoff.Sleep(inv.Context, runInterval) != nil {
			return nil, cli.ErrInterrupted
		}
		c, err := inv.Attach()
		if err == nil {
			cmd.Timeout.Duration = max(cmd.timeout()-time.Since(began), time.Millisecond)
		}
		if !errors.Is(err, attach.ErrNotRunning) {
			return c, err
		}
	}
}

// awaitReady waits until all servers are ready, or one of them with --wait any. It ends, too,
// when none of them can still become ready by itself, and at the timeout.
func (cmd *statusCmd) awaitReady(inv *invocation, c *servers.Set) error {
	timed := *inv
	timed.Wait = cmd.timeout()
	names := c.Run.Servers // also those that are not registered yet
	unusable := len(c.Run.Unusable)
	if len(cmd.Servers) > 0 {
		names = slices.DeleteFunc(slices.Clone(cmd.Servers), func(name string) bool { return !slices.Contains(c.Run.Servers, name) })
		unusable = len(cmd.Servers) - len(names)
	}
	if unusable > 0 && inv.WaitFor == waitReady || len(names) == 0 {
		return nil // they will never be ready
	}
	return timed.AwaitStatus(c, func(status api.Status) bool { return waitEnds(inv.WaitFor, names, status.Servers) })
}

// waitEnds reports whether a condition about the named servers holds, or can no longer hold.
// A server that is not registered yet is not ready. One at rest counts as ready, since a call wakes it; one that is stopped is
// not waited for.
func waitEnds(condition string, names []string, servers []mcpvisor.ServerStatus) bool {
	ready, stopped, lost := 0, 0, 0
	for _, s := range servers {
		if !slices.Contains(names, s.Name) {
			continue
		}
		switch s.State {
		case supervisor.StateReady, supervisor.StateAsleep, supervisor.StateResting:
			ready++
		case supervisor.StateStopped:
			stopped++
		case supervisor.StateEvicted, supervisor.StateUnauthorized, supervisor.StateStopping, supervisor.StateUnregistered:
			lost++
		default:
			if waitsForLost(s, servers) {
				lost++
			}
		}
	}
	if condition == waitAny {
		return ready > 0 || stopped+lost == len(names)
	}
	return lost > 0 || ready+stopped == len(names)
}

// waitsForLost reports whether a server waits for one that only an operator can start.
func waitsForLost(s mcpvisor.ServerStatus, all []mcpvisor.ServerStatus) bool {
	return s.State == supervisor.StateWaiting && slices.ContainsFunc(all, func(other mcpvisor.ServerStatus) bool {
		return slices.Contains(s.WaitsFor, other.Name) && slices.Contains([]supervisor.State{supervisor.StateStopped, supervisor.StateEvicted, supervisor.StateUnauthorized}, other.State)
	})
}
