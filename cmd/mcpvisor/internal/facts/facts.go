// Package facts says in words what is known about one server, a line for each fact: for the screen of top, and for the
// page of status.
package facts

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// Fact is one line about a server. An empty Label continues the fact before.
type Fact struct {
	Label string
	Text  string
	Color table.Color
}

// Subject is a server, and what the facts about it are taken from. Fields that are not known may be empty.
type Subject struct {
	Server    api.Server
	Attention []api.Attention // of all servers
	Groups    []mcpvisor.GroupStatus
	Placement api.Placement // without a name outside of a fleet
	// Earlier is what happened to earlier registrations of the name, and why there is another one; oldest first.
	Earlier []api.EventSummary
	Now     time.Time
	Clock   func(time.Time) string
	Starter string // how the reader starts a server that is stopped
}

// State says in which state the server is, for how long, and what that means.
func (s *Subject) State() string {
	status := &s.Server.Status
	text := fmt.Sprintf("%s for %s", status.State, plaintext.Duration(s.Now.Sub(status.Since)))
	if status.DownSince != nil && status.DownSince.Before(status.Since) {
		text = fmt.Sprintf("%s, not ready for %s", status.State, plaintext.Duration(s.Now.Sub(*status.DownSince)))
	}
	if meaning := Meaning(status, s.Clock, s.Starter); meaning != "" {
		text += ": " + meaning
	} else if status.RetryAt != nil {
		text += ", next attempt in " + plaintext.Duration(status.RetryAt.Sub(s.Now))
	}
	return text
}

// Meaning says in plain words what a state means whose name does not say it; else it is empty.
func Meaning(status *mcpvisor.ServerStatus, clock func(time.Time) string, starter string) string {
	switch {
	case status.State == supervisor.StateEvicted:
		return "given up, not tried again by itself"
	case status.State == supervisor.StateParked && status.RetryAt != nil:
		return "waits until " + clock(*status.RetryAt) + " for its next attempt"
	case status.State == supervisor.StateWaiting && len(status.WaitsFor) > 0:
		return "comes after " + strings.Join(status.WaitsFor, " ")
	case status.State == supervisor.StateWaiting:
		return "its group restarts"
	case status.State == supervisor.StateAsleep:
		return "starts when it is wanted"
	case status.State == supervisor.StateResting:
		return "its work is done; starts when it is wanted"
	case status.State == supervisor.StateStopped:
		return "by an operator; " + starter + " starts it, and a reload does not"
	}
	return ""
}

// List returns the facts after the state. troubled: the last cause is why the server is not as it should be.
func (s *Subject) List(troubled bool) (all []Fact) {
	status := &s.Server.Status
	add := func(label string, color table.Color, text string) {
		if text != "" {
			all = append(all, Fact{label, text, color})
		}
	}
	if c := status.LastCause; c != nil && troubled {
		add("cause", table.Failure, c.Error())
	} else if c != nil {
		add("last end", table.Plain, c.Error())
	}
	for _, a := range s.About() {
		if c := status.LastCause; c == nil || !strings.HasPrefix(a.Text, c.Describe()) { // else it stands above
			add("attention", ColorOf(a.Severity), a.Text)
		}
		for _, text := range a.More {
			add("", table.Plain, text)
		}
		add("do", table.Plain, a.Action)
	}
	if p := s.Placement; p.Server != "" {
		text, color := fmt.Sprintf("%s, epoch %d of its place", p.Node, p.Epoch), table.Plain
		if p.Node == "" {
			text, color = "none: "+p.Reason, table.Warning
		}
		if p.Exclusive {
			text += ", exclusive"
		}
		add("node", color, text)
	}
	for _, g := range s.Groups {
		if slices.Contains(g.Members, status.Name) {
			add("group", table.Plain, g.Name+", "+g.State+", "+string(g.Strategy))
		}
	}
	add("target", table.Plain, strings.TrimSpace(status.Transport+"  "+status.Target))
	add("origin", table.Plain, status.Origin)
	add("session", table.Plain, session(status.Session))
	add("standby", table.Plain, session(status.Standby))
	add("copy pid", table.Plain, strings.Trim(fmt.Sprint(status.Copies), "[]"))
	policy := status.Policy
	if status.MaxAttempts > 0 {
		policy += fmt.Sprintf("; %d of %d attempts spent", status.Attempt, status.MaxAttempts)
	}
	add("policy", table.Plain, policy)
	add("restarts", table.Plain, fmt.Sprintf("%d, ready for %s in all", status.Restarts, plaintext.Duration(status.Totals.Uptime)))
	add("offers", table.Plain, fmt.Sprintf("%s (about %s), %s, %s", display.Count(status.Catalog.Tools, "tool"), display.Count(status.Catalog.Tokens, "token"),
		display.Count(status.Catalog.Resources+status.Catalog.Templates, "resource"), display.Count(status.Catalog.Prompts, "prompt")))
	calls, color := fmt.Sprintf("%d, %d failed", status.Calls.Total, status.Calls.Failed), table.Plain
	if n := status.Totals.ToolErrors; n > 0 {
		calls += ", " + display.Count(n, "tool error")
	}
	calls += fmt.Sprintf(", %d in flight", status.Calls.InFlight)
	if status.Totals.Unknown > 0 {
		calls, color = calls+fmt.Sprintf(", %d with unknown outcome", status.Totals.Unknown), table.Warning
	}
	add("calls", color, calls)
	return all
}

// About returns the entries of attention that are about the server. It is not nil.
func (s *Subject) About() []api.Attention {
	about := []api.Attention{}
	for _, a := range s.Attention {
		if name := s.Server.Status.Name; a.Server == name || slices.Contains(a.Servers, name) {
			about = append(about, a)
		}
	}
	return about
}

// ColorOf is the colour of a severity.
func ColorOf[T api.Severity | mcpvisor.Severity](s T) table.Color {
	switch api.Severity(s) {
	case api.SeverityError:
		return table.Failure
	case api.SeverityWarning:
		return table.Warning
	default:
		return table.Plain
	}
}

// StateColor is the colour of a state: trouble is loud, the rest is calm.
func StateColor(s supervisor.State) table.Color {
	switch s {
	case supervisor.StateReady:
		return table.Good
	case supervisor.StateConnecting, supervisor.StateDiscovering, supervisor.StateClosing, supervisor.StateWaiting:
		return table.Busy
	case supervisor.StateBackoff, supervisor.StateParked:
		return table.Warning
	case supervisor.StateEvicted, supervisor.StateUnauthorized:
		return table.Failure
	default:
		return table.Quiet
	}
}

// GroupState is the state of a server that is like that of a group.
func GroupState(group string) supervisor.State {
	if like, known := map[string]supervisor.State{"starting": supervisor.StateConnecting, "ending": supervisor.StateClosing, "blocked": supervisor.StateStopped,
		"failed": supervisor.StateEvicted, "given up": supervisor.StateEvicted}[group]; known {
		return like
	}
	return supervisor.State(group) // the others are states of servers, too
}

// FailedCalls counts the calls of a tool that failed.
func FailedCalls(s *api.ToolStats) (n int64) {
	for _, failed := range s.Failed {
		n += failed
	}
	return n
}

func session(s *mcpvisor.SessionInfo) string {
	if s == nil {
		return ""
	}
	parts := []string{strings.TrimSpace(s.ServerName + " " + s.ServerVersion), s.ProtocolVersion}
	if s.PID != 0 {
		parts = append(parts, fmt.Sprintf("pid %d", s.PID))
	}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ", ")
}

// EndText says why an incarnation ended.
func EndText(h *mcpvisor.Incarnation) string {
	text := "requested"
	if h.Cause != nil {
		text = h.Cause.Error()
	}
	if !h.Served {
		text = "never ready: " + text
	}
	return text
}
