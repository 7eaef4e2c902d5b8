package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/facts"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// column is a column of the table of servers.
type column struct {
	title string
	width int
	right bool
	value func(m *model, s *mcpvisor.ServerStatus) string
}

// allColumns are the columns between the name and the cause, in the order in which they are
// shown.
var allColumns = []column{
	{"STATE", 14, false, func(m *model, s *mcpvisor.ServerStatus) string { text, _ := m.stateOf(s); return text }},
	{"NODE", 10, false, func(m *model, s *mcpvisor.ServerStatus) string { return m.placement(s.Name).Node }},
	{"FOR", 7, true, func(m *model, s *mcpvisor.ServerStatus) string {
		if m.flapping(s) {
			return "·" // no state lasts
		}
		return plaintext.Duration(m.opts.Now().Sub(api.Since(s)))
	}},
	{"NEXT", 6, true, func(m *model, s *mcpvisor.ServerStatus) string {
		if s.RetryAt == nil {
			return ""
		}
		return plaintext.Duration(s.RetryAt.Sub(m.opts.Now()))
	}},
	{"RESTARTS", 8, true, func(_ *model, s *mcpvisor.ServerStatus) string { return number(int64(s.Restarts)) }},
	{"CPU", 5, true, func(m *model, s *mcpvisor.ServerStatus) string {
		if u := m.usage(s.Name); u.CPU != nil {
			return fmt.Sprintf("%.0f%%", *u.CPU*100)
		}
		return ""
	}},
	{"MEMORY", 6, true, func(m *model, s *mcpvisor.ServerStatus) string {
		if u := m.usage(s.Name); u.MemoryBytes != nil {
			return plaintext.Memory(*u.MemoryBytes)
		}
		return ""
	}},
	{"CALLS/M", 7, true, func(m *model, s *mcpvisor.ServerStatus) string {
		if u := m.usage(s.Name); u.CallsPerMinute != nil && *u.CallsPerMinute > 0 {
			return strconv.FormatFloat(*u.CallsPerMinute, 'f', decimals(*u.CallsPerMinute), 64)
		}
		return "·"
	}},
	{"FAILED", 6, true, func(m *model, s *mcpvisor.ServerStatus) string {
		if u := m.usage(s.Name); u.ErrorShare != nil && *u.ErrorShare > 0 {
			return fmt.Sprintf("%.*f%%", decimals(*u.ErrorShare*100), *u.ErrorShare*100)
		}
		return "·"
	}},
	{"BUSY", 4, true, func(_ *model, s *mcpvisor.ServerStatus) string { return number(s.Calls.InFlight) }},
	{"P95", 6, true, func(m *model, s *mcpvisor.ServerStatus) string { return m.p95(s.Name) }},
	{"TOOLS", 5, true, func(_ *model, s *mcpvisor.ServerStatus) string { return number(int64(s.Catalog.Tools)) }},
	{"PID", 7, true, func(_ *model, s *mcpvisor.ServerStatus) string {
		if s.Session == nil || s.Session.PID == 0 {
			return ""
		}
		return strconv.Itoa(s.Session.PID)
	}},
}

// dropped is the order in which columns are left out where the names would be cut: the least
// important first. The state is always shown.
var dropped = []string{"PID", "TOOLS", "P95", "CALLS/M", "MEMORY", "CPU", "FAILED", "RESTARTS", "BUSY", "NEXT", "NODE", "FOR"}

// minCause is the least width of the column with causes.
const minCause = 20

// columns returns the columns that have something to show and fit: the first has the name, the
// last is what is left for the cause. missing are those that do not fit.
func (m *model) columns(rows []branch) (shown []column, gap string, missing []string) {
	all, longest := serversOf(rows), len("SERVER")
	for _, b := range rows {
		longest = max(longest, b.width())
	}
	shown, gap, missing = fitColumns(m.usedColumns(all), longest, m.width)
	rest := roomBeside(shown, gap, m.width)
	name := column{title: "SERVER", width: max(min(longest, rest), 6)} // rows have its value
	cause := rest - name.width - len(gap)
	shown = slices.Insert(shown, 0, name)
	if cause >= minCause && slices.ContainsFunc(all, func(s *mcpvisor.ServerStatus) bool { return m.causeOf(s) != "" }) {
		shown = append(shown, column{"CAUSE", cause, false, (*model).causeOf})
	}
	return shown, gap, missing
}

// usedColumns are the columns that have something to show.
func (m *model) usedColumns(all []*mcpvisor.ServerStatus) (used []column) {
	comeAndGo := slices.ContainsFunc(all, m.flapping)
	for _, c := range allColumns {
		if c.title == "STATE" || c.title == "FOR" || comeAndGo && slices.Contains([]string{"NEXT", "TOOLS", "PID"}, c.title) ||
			slices.ContainsFunc(all, func(s *mcpvisor.ServerStatus) bool { v := c.value(m, s); return v != "" && v != "·" }) {
			used = append(used, c)
		}
	}
	return used
}

// roomBeside is how many columns of a terminal are left beside the given ones and the mark of the
// selection.
func roomBeside(shown []column, gap string, width int) int {
	left := width - 2
	for _, c := range shown {
		left -= len(gap) + c.width
	}
	return left
}

// fitColumns leaves out columns until the names have room.
func fitColumns(used []column, longest, width int) (shown []column, gap string, missing []string) {
	gap = " "
	if width >= 96 {
		gap = "  "
	}
	shown = slices.Clone(used)
	for _, title := range dropped {
		if roomBeside(shown, gap, width) >= min(longest, max(24, width/2)) {
			break
		}
		if i := slices.IndexFunc(shown, func(c column) bool { return c.title == title }); i >= 0 {
			shown, missing = slices.Delete(shown, i, i+1), append(missing, title)
		}
	}
	return shown, gap, missing
}

// causeOf is why a server is not ready, or was not a moment ago.
func (m *model) causeOf(s *mcpvisor.ServerStatus) string {
	if isIdle(s.State) || s.State == supervisor.StateWaiting {
		return facts.Meaning(s, m.clock, "u")
	}
	if s.State == supervisor.StateReady && !m.flapping(s) || s.LastCause == nil {
		return ""
	}
	meaning, _, _ := strings.Cut(facts.Meaning(s, m.clock, "u"), ", ")
	meaning, _, _ = strings.Cut(meaning, " for ")
	if meaning != "" {
		meaning += ": "
	}
	return meaning + s.LastCause.Error() // which begins with the line of stderr that says why
}

// usage is what a server uses; empty if it is not known.
func (m *model) usage(server string) api.ServerUsage {
	for _, u := range m.data.usage.Servers {
		if u.Server == server {
			return u
		}
	}
	return api.ServerUsage{}
}

// decimals is how many decimals a number is shown with: small ones need one.
func decimals(v float64) int {
	if v < 10 {
		return 1
	}
	return 0
}

// number renders a count; 0 is a dot, so that the others stand out.
func number(n int64) string {
	if n == 0 {
		return "·"
	}
	return strconv.FormatInt(n, 10)
}

// p95 is that of the slowest tool of a server; empty if none was called.
func (m *model) p95(server string) string {
	slowest, called := m.slowest(server)
	if !called {
		return ""
	}
	return latency(slowest)
}

func (m *model) slowest(server string) (slowest time.Duration, called bool) {
	for i := range m.data.use.Tools {
		if t := &m.data.use.Tools[i]; t.Server == server && t.Calls > 0 {
			slowest, called = max(slowest, t.P95), true
		}
	}
	return slowest, called
}

// latency renders a duration of a call; 0 is a dot.
func latency(d time.Duration) string {
	if d <= 0 {
		return "·"
	}
	return plaintext.Took(d)
}

// order is an order of the table. Equal servers stay in the order of their names.
type order struct {
	name    string // as the title says it; empty for the order of names
	compare func(m *model, a, b *mcpvisor.ServerStatus) int
}

// orders are what the key s goes through.
var orders = []order{
	{},
	{"trouble first", func(m *model, a, b *mcpvisor.ServerStatus) int {
		return cmp.Compare(m.trouble(b), m.trouble(a))
	}},
	{"CPU", byUsage(func(u api.ServerUsage) *float64 { return u.CPU })},
	{"memory", byUsage(func(u api.ServerUsage) *int64 { return u.MemoryBytes })},
	{"calls a minute", byUsage(func(u api.ServerUsage) *float64 { return u.CallsPerMinute })},
	{"P95", func(m *model, a, b *mcpvisor.ServerStatus) int {
		first, _ := m.slowest(a.Name)
		second, _ := m.slowest(b.Name)
		return cmp.Compare(second, first)
	}},
	{"failed calls", func(_ *model, a, b *mcpvisor.ServerStatus) int { return cmp.Compare(b.Calls.Failed, a.Calls.Failed) }},
	{"restarts", func(_ *model, a, b *mcpvisor.ServerStatus) int { return cmp.Compare(b.Restarts, a.Restarts) }},
}

// trouble ranks a server by how urgently it needs attention.
func (m *model) trouble(s *mcpvisor.ServerStatus) int {
	if m.flapping(s) {
		return 2
	}
	switch s.State {
	case supervisor.StateEvicted:
		return 4
	case supervisor.StateUnauthorized:
		return 3
	case supervisor.StateParked, supervisor.StateBackoff:
		return 2
	case supervisor.StateReady, supervisor.StateAsleep, supervisor.StateResting, supervisor.StateStopped:
		return 0
	default:
	}
	return 1
}

// byUsage compares what servers use, the most first. What is not known counts as nothing.
func byUsage[T int64 | float64](of func(api.ServerUsage) *T) func(m *model, a, b *mcpvisor.ServerStatus) int {
	value := func(m *model, s *mcpvisor.ServerStatus) (v T) {
		if known := of(m.usage(s.Name)); known != nil {
			v = *known
		}
		return v
	}
	return func(m *model, a, b *mcpvisor.ServerStatus) int { return cmp.Compare(value(m, b), value(m, a)) }
}

// hiddenLine says what of the table is not shown; empty if all of it is.
func hiddenLine(above, below int, missing []string) string {
	var parts []string
	if above > 0 {
		parts = append(parts, fmt.Sprintf("%d above", above))
	}
	if below > 0 {
		parts = append(parts, fmt.Sprintf("%d below", below))
	}
	if len(missing) > 0 {
		parts = append(parts, "no room for "+strings.Join(missing, ", "))
	}
	return strings.Join(parts, ", ")
}
