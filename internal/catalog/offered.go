package catalog

import (
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
)

// Offered returns the catalog without the tools that a filter hides, and with a warning
// for each pattern that matches no tool. c is unchanged. Offered of nil is nil.
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
	unused := 0
	for _, pattern := range slices.Concat(f.Allow, f.Deny) {
		matches := func(t mcpvisor.Tool) bool {
			return (mcpvisor.ToolFilter{Allow: []string{pattern}}).Allows(t.OriginalName)
		}
		if strings.Trim(pattern, "*") == "" || slices.ContainsFunc(c.Tools, matches) {
			continue
		}
		if unused++; unused <= WarningExamples {
			warn(&next.Warnings, NameTools, "tool pattern %.100q matches no tool of this server", pattern)
		}
	}
	switch more := unused - WarningExamples; {
	case more == 1:
		warn(&next.Warnings, NameTools, "1 more tool pattern matches no tool of this server")
	case more > 1:
		warn(&next.Warnings, NameTools, "%d more tool patterns match no tool of this server", more)
	}
	next.index()
	return &next
}
