package catalog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
)

// Offered is the catalog without the tools that a filter hides, with a warning for
// patterns that match none. c is unchanged; nil has no tools.
func (c *Catalog) Offered(f mcpvisor.ToolFilter) *Catalog {
	if c == nil || f.IsZero() {
		return c
	}
	next := *c
	next.Tools = nil
	for _, t := range c.Tools {
		if f.Allows(t.OriginalName) {
			next.Tools = append(next.Tools, t)
		}
	}
	next.Tools = slices.Clip(next.Tools)
	next.Hidden = len(c.Tools) - len(next.Tools)
	next.Warnings = slices.Clone(c.Warnings)
	idle := 0
	for _, pattern := range slices.Concat(f.Allow, f.Deny) {
		listed := func(t mcpvisor.Tool) bool {
			return (mcpvisor.ToolFilter{Allow: []string{pattern}}).Allows(t.OriginalName)
		}
		if strings.Trim(pattern, "*") == "" || slices.ContainsFunc(c.Tools, listed) {
			continue
		}
		if idle++; idle <= WarningExamples {
			next.Warnings = append(next.Warnings, fmt.Sprintf("tool pattern %.100q matches no tool of this server", pattern))
		}
	}
	if more := idle - WarningExamples; more > 0 {
		next.Warnings = append(next.Warnings, fmt.Sprintf("tool patterns: %d more match no tool of this server", more))
	}
	next.index()
	return &next
}
