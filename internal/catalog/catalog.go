package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor"
)

// Catalog is everything that one incarnation of a server offers. It is immutable
// once built by [New], and sorted, so that equal servers list equally.
type Catalog struct {
	Tools     []mcpvisor.Tool             // by OriginalName
	Resources []mcpvisor.Resource         // by URI
	Templates []mcpvisor.ResourceTemplate // by URITemplate
	Prompts   []mcpvisor.Prompt           // by OriginalName
	// Version differs from that of every other catalog of this process.
	Version uint64
	// Hidden is how many tools ServerSpec.Tools hides. Tools does not have them.
	Hidden int
	// WithheldTools, WithheldPrompts and WithheldTemplates have the findings about what a guard withholds, by the server's own
	// names and URI templates. Tools, Prompts and Templates do not have them.
	WithheldTools, WithheldPrompts, WithheldTemplates map[string]string
	// NoInstructions: a guard withholds the instructions of the session.
	NoInstructions bool
	// Tokens estimates what Tools cost a language model; see mcpvisor.Tool.TokenEstimate.
	Tokens int
	// Warnings says what was left out and why. Of one kind and list at most
	// [WarningExamples] are spelled out; one more counts the rest.
	Warnings []mcpvisor.Warning
	// Instructions are those of the session that offers the lists. They are set when the
	// catalog is published.
	Instructions string
	// TTL is how long the server says that a list stays true ("ttlMs", 2026-07-28). A
	// list of which it does not say that is missing.
	TTL map[Lists]time.Duration

	// byName and byAlias hold indexes into Tools. byAlias has only the aliases that end
	// with a hash; from the others the name can be read.
	byName  map[string]int32
	byAlias map[string]int32
}

// WarningExamples is how many warnings of one kind a list can cause before the rest
// are only counted.
const WarningExamples = 10

// New returns a catalog with the content of c. It sorts the lists, leaves out
// duplicates with a warning (the first one listed is kept), and indexes the tools. New
// takes over the slices of c.
func New(c Catalog) *Catalog {
	c.Tools = sorted(c.Tools, func(t *mcpvisor.Tool) string { return t.OriginalName }, NameTools, &c.Warnings)
	c.Resources = sorted(c.Resources, func(r *mcpvisor.Resource) string { return r.URI }, NameResources, &c.Warnings)
	c.Templates = sorted(c.Templates, func(r *mcpvisor.ResourceTemplate) string { return r.URITemplate }, NameTemplates, &c.Warnings)
	c.Prompts = sorted(c.Prompts, func(p *mcpvisor.Prompt) string { return p.OriginalName }, NamePrompts, &c.Warnings)
	c.index()
	c.Version = versions.Add(1)
	return &c
}

// versions is the last Version.
var versions atomic.Uint64

// index fills byName and byAlias, and counts the tokens.
func (c *Catalog) index() {
	c.byName, c.byAlias, c.Tokens = make(map[string]int32, len(c.Tools)), nil, 0
	for i := range c.Tools {
		t := &c.Tools[i]
		c.Tokens += t.TokenEstimate()
		c.byName[t.OriginalName] = int32(i)
		if _, _, plain := mcpvisor.SplitAlias(t.Alias); !plain {
			if c.byAlias == nil {
				c.byAlias = map[string]int32{}
			}
			c.byAlias[t.Alias] = int32(i)
		}
	}
}

// sorted returns the items ordered by key, without duplicates: of equal keys the first
// one is kept. Usually servers list in order already; then nothing is copied.
func sorted[T any](items []T, key func(*T) string, list string, warnings *[]mcpvisor.Warning) []T {
	compare := func(i, j int32) int { return strings.Compare(key(&items[i]), key(&items[j])) }
	ascending := true
	for i := 1; i < len(items) && ascending; i++ {
		ascending = compare(int32(i-1), int32(i)) < 0
	}
	if ascending {
		return items
	}
	order := make([]int32, len(items))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(i, j int32) int { return cmp.Or(compare(i, j), cmp.Compare(i, j)) })
	kept := make([]T, 0, len(items))
	duplicates := 0
	for _, i := range order {
		if n := len(kept); n > 0 && key(&kept[n-1]) == key(&items[i]) {
			if duplicates++; duplicates <= WarningExamples {
				warn(warnings, list, "%.100q is listed twice; the first one is kept", key(&items[i]))
			}
			continue
		}
		kept = append(kept, items[i])
	}
	switch more := duplicates - WarningExamples; {
	case more == 1:
		warn(warnings, list, "1 more is listed twice; the first one is kept")
	case more > 1:
		warn(warnings, list, "%d more are listed twice; the first ones are kept", more)
	}
	return kept
}

func warn(warnings *[]mcpvisor.Warning, list, format string, args ...any) {
	*warnings = append(*warnings, mcpvisor.Warning{List: list, Text: fmt.Sprintf(format, args...)})
}

// Tool returns the tool that the server calls originalName. A nil catalog has none.
func (c *Catalog) Tool(originalName string) (mcpvisor.Tool, bool) {
	if t := c.FindTool(originalName); t != nil {
		return *t, true
	}
	return mcpvisor.Tool{}, false
}

// FindTool is Tool without a copy: the tool belongs to the catalog, and must not be changed. It
// is nil if the server lists no such tool.
func (c *Catalog) FindTool(originalName string) *mcpvisor.Tool {
	if c == nil {
		return nil
	}
	i, ok := c.byName[originalName]
	if !ok {
		return nil
	}
	return &c.Tools[i]
}

// HasPrompt reports whether the server lists a prompt that it calls originalName. A nil
// catalog has none.
func (c *Catalog) HasPrompt(originalName string) bool {
	if c == nil {
		return false
	}
	_, found := slices.BinarySearchFunc(c.Prompts, originalName, func(p mcpvisor.Prompt, name string) int {
		return strings.Compare(p.OriginalName, name)
	})
	return found
}

// ToolByAlias returns the tool with an alias. A nil catalog has none.
func (c *Catalog) ToolByAlias(alias string) (mcpvisor.Tool, bool) {
	if c == nil {
		return mcpvisor.Tool{}, false
	}
	if server, name, plain := mcpvisor.SplitAlias(alias); plain {
		t, ok := c.Tool(name)
		return t, ok && t.Server == server
	}
	if i, ok := c.byAlias[alias]; ok {
		return c.Tools[i], true
	}
	return mcpvisor.Tool{}, false
}

// Lists is a set of the lists that a server offers.
type Lists uint8

// The lists. Resource templates go with the resources: the protocol announces
// changes of both together.
const (
	ListTools Lists = 1 << iota
	ListResources
	ListPrompts
	AllLists = ListTools | ListResources | ListPrompts
)

// The names of the lists in mcpvisor.Warning.List. They are the members of the
// results of the protocol.
const (
	NameTools     = "tools"
	NameResources = "resources"
	NameTemplates = "resourceTemplates"
	NamePrompts   = "prompts"
)

// listsOf returns the lists that a warning is about by its name of a list; all of
// them if it names none.
func listsOf(name string) Lists {
	switch name {
	case NameTools:
		return ListTools
	case NameResources, NameTemplates:
		return ListResources
	case NamePrompts:
		return ListPrompts
	}
	return AllLists
}

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
	next.Version = versions.Add(1)
	return &next
}
