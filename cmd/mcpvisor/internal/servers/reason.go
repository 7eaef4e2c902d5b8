package servers

import (
	"fmt"
	"strings"

	"github.com/mcpvisor/mcpvisor"
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
