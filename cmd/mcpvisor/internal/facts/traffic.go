package facts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/monitor"
)

// ClientName is how a client is called.
func ClientName(s *clients.SessionStatus) string { return cmp.Or(s.Label(), "not named yet") }

// ClientState says what a client does.
func ClientState(s *clients.SessionStatus) string {
	switch {
	case s.Ended != nil:
		return "ended"
	case s.InFlight > 0:
		return fmt.Sprintf("%d in flight", s.InFlight)
	case s.Streams > 0:
		return display.Count(s.Streams, "stream")
	}
	return "idle"
}

// ClientOrigin describes a client: its principal, its transport and version, its profile, and its own copies of servers.
func ClientOrigin(s *clients.SessionStatus) string {
	from := strings.Join(slices.DeleteFunc([]string{s.Principal, s.Transport, s.Protocol, s.Profile}, func(text string) bool { return text == "" }), ", ")
	if len(s.Copies) > 0 {
		from += ", own " + strings.Join(s.Copies, " ")
	}
	return from
}

// Outcome says how a call has ended.
func Outcome(c *monitor.CallRecord) (text string, color table.Color) {
	switch {
	case c.Kind == "" && c.ToolError:
		return "the tool reports an error", table.Warning
	case c.Kind == "":
		return "ok", table.Quiet
	case c.Outcome == mcpvisor.OutcomeUnknown:
		return string(c.Kind) + ", may have been executed", table.Failure
	case c.Outcome == mcpvisor.OutcomeNotSent:
		return string(c.Kind) + ", not sent", table.Warning
	}
	return string(c.Kind) + ", answered", table.Warning
}
