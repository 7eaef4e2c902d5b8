package servers

import (
	"context"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Reason says in one line why a server is not ready.
func (o *Opener) Reason(s mcpvisor.ServerStatus) string {
	if s.LastCause != nil {
		return s.LastCause.Describe()
	}
	text := "not ready in time; raise --wait if it is slow to start"
	if n := MalformedCount(s); n > 0 {
		text = "not ready in time; " + MalformedText(s, n)
	}
	if o.Context.Err() != nil {
		text = "interrupted before it was ready"
	}
	if lines := Stderr(s); len(lines) > 0 {
		text += "; stderr: " + strings.Join(lines, " | ")
	}
	return text
}

// Stderr returns what a server that is not ready has written to stderr.
func Stderr(s mcpvisor.ServerStatus) []string {
	switch {
	case s.LastCause != nil:
		return s.LastCause.Stderr
	case s.Session != nil:
		return s.Session.Stderr
	}
	return nil
}

// MalformedCount returns how many messages of a server's current session are not
// JSON-RPC.
func MalformedCount(s mcpvisor.ServerStatus) uint64 {
	if s.Session == nil {
		return 0
	}
	return s.Session.Discarded.Malformed
}

// MalformedText says that n messages of a server are not JSON-RPC, and what to do.
func MalformedText(s mcpvisor.ServerStatus, n uint64) string {
	if s.Transport != "stdio" {
		return fmt.Sprintf("messages that are not JSON-RPC: %d; look at the server's log", n)
	}
	return fmt.Sprintf("lines on its stdout that are not JSON-RPC: %d; a stdio server must write only JSON-RPC to stdout, and log to stderr", n)
}

// Unusable returns the entries of a file that cannot be used, each with all that is wrong
// with it.
func Unusable(file *config.File) (all []control.Unusable) {
	for _, s := range file.Unusable {
		var reasons []string
		for _, p := range file.Problems {
			if p.Server == s.Entry && p.Severity == config.SeverityError {
				reasons = append(reasons, cli.ConfigTerms(p.Message))
			}
		}
		all = append(all, control.Unusable{Name: s.Spec.Name, Origin: s.Spec.Origin,
			Reason: fmt.Sprintf("%s (%s)", display.Line(strings.Join(reasons, "; ")), s.Spec.Origin)})
	}
	return all
}

// StandIn returns a spec in place of that of an entry that cannot be used. Its server is
// evicted at once, with the reason as its cause, so that it is seen wherever servers are.
func StandIn(u control.Unusable) mcpvisor.ServerSpec {
	cause := &supervisor.Cause{Kind: supervisor.CauseConfig, Permanent: true, Message: u.Reason}
	return mcpvisor.ServerSpec{Name: u.Name, Origin: u.Origin, StartSupervised: true,
		Transport: &mcpvisor.Transport{Kind: "unusable", Target: u.Origin, New: func(context.Context) (mcp.Transport, error) { return nil, cause }}}
}
