package listing

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/internal/hostschema"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
)

// Withheld is a tool or prompt that is not listed: gateway.Withheld.
type Withheld struct{ Server, Name, Kind, Reason string }

// schemaProblem returns why a host could reject a list that contains this tool; empty if no reason is
// known.
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

// conflictReason returns the reason for withholding entries that would have the same name.
func conflictReason(name string, owners []Owner) string {
	qualified := make([]string, 0, len(owners))
	for _, o := range owners {
		qualified = append(qualified, message.Shorten(o.Qualified()))
	}
	slices.Sort(qualified)
	if len(qualified) > maxOwners {
		qualified = append(qualified[:maxOwners], "…")
	}
	return "the name " + message.Quote(name) + " would stand for " + strings.Join(qualified, " and ") + "; rename or hide all but one, or let names begin with their servers"
}

// maxOwners bounds the entries that a reason names.
const maxOwners = 8
