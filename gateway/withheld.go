package gateway

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/internal/hostschema"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
)

// schemaProblem returns why a host could reject a list that has a tool with these schemas;
// empty if nothing is known. It opens no file and no URL.
func schemaProblem(t *mcpvisor.Tool) string {
	for _, s := range []struct {
		what   string
		schema any
	}{{"inputSchema", t.Definition.InputSchema}, {"outputSchema", t.Definition.OutputSchema}} {
		raw, ok := s.schema.(json.RawMessage)
		if !ok || len(raw) == 0 {
			continue
		}
		if problem := hostschema.Problem(raw); problem != "" {
			return s.what + " " + problem
		}
	}
	return ""
}

// Withheld is a tool or prompt that is not listed, and cannot be called.
type Withheld struct {
	// Server and Name are those of the tool or prompt at its server.
	Server string `json:"server"`
	Name   string `json:"name"`
	// Kind is "tool" or "prompt".
	Kind string `json:"kind"`
	// Reason says why, and what to do.
	Reason string `json:"reason"`
}

// conflictReason words a conflict of names.
func conflictReason(name string, owners []owner) string {
	qualified := make([]string, 0, len(owners))
	for _, o := range owners {
		qualified = append(qualified, message.Shorten(o.qualified()))
	}
	slices.Sort(qualified)
	if len(qualified) > maxNamed {
		qualified = append(qualified[:maxNamed], "…")
	}
	return "the name " + message.Quote(name) + " would stand for " + strings.Join(qualified, " and ") + "; rename or hide all but one, or let names begin with their servers"
}
