package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
)

// Catalog is everything that one incarnation of a server offers. It is
// immutable once built, and sorted: equal servers list equally.
type Catalog struct {
	Tools     []mcpvisor.Tool
	Resources []mcpvisor.Resource
	Templates []mcpvisor.ResourceTemplate
	Prompts   []mcpvisor.Prompt
	// Hidden is how many tools [ServerSpec].Tools keeps from being offered.
	Hidden int
	// Warnings says what was left out and why: a list that failed, an entry that
	// could not be read, a cap that was reached. Of one kind and list at most
	// [WarningExamples] are spelled out; one more says how many there are beside them.
	Warnings []string
	// TTL is how long the server says that a list stays true, by list. What it does
	// not say is missing.
	TTL map[Lists]time.Duration

	byName map[string]int32
	// byHash finds the tools whose alias ends with a hash.
	byHash map[string]int32
}

// WarningExamples is how many warnings of one kind a list can cause before the
// rest are only counted.
const WarningExamples = 10

// NewCatalog sorts the lists by name or URI, drops duplicates with a warning
// (the first one listed wins), and indexes the tools.
func NewCatalog(tools []mcpvisor.Tool, resources []mcpvisor.Resource, templates []mcpvisor.ResourceTemplate, prompts []mcpvisor.Prompt, warnings []string) *Catalog {
	c := &Catalog{Warnings: warnings}
	c.Tools = sorted(tools, func(t *mcpvisor.Tool) string { return t.OriginalName }, "tool", &c.Warnings)
	c.Resources = sorted(resources, func(r *mcpvisor.Resource) string { return r.URI }, "resource", &c.Warnings)
	c.Templates = sorted(templates, func(r *mcpvisor.ResourceTemplate) string { return r.URITemplate }, "resource template", &c.Warnings)
	c.Prompts = sorted(prompts, func(p *mcpvisor.Prompt) string { return p.OriginalName }, "prompt", &c.Warnings)
	c.index()
	return c
}

// index finds the tools by their names.
func (c *Catalog) index() {
	c.byName, c.byHash = make(map[string]int32, len(c.Tools)), nil
	for i := range c.Tools {
		t := &c.Tools[i]
		c.byName[t.OriginalName] = int32(i)
		if _, _, plain := mcpvisor.SplitAlias(t.Alias); !plain {
			if c.byHash == nil {
				c.byHash = map[string]int32{}
			}
			c.byHash[t.Alias] = int32(i)
		}
	}
}

// sorted orders the items by key, and of equal ones as they came.
func sorted[T any](items []T, key func(*T) string, noun string, warnings *[]string) []T {
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
	twice := 0
	for _, i := range order {
		if n := len(kept); n > 0 && key(&kept[n-1]) == key(&items[i]) {
			if twice++; twice <= WarningExamples {
				*warnings = append(*warnings, fmt.Sprintf("%s %.100q is listed twice; the first one is kept", noun, key(&items[i])))
			}
			continue
		}
		kept = append(kept, items[i])
	}
	if more := twice - WarningExamples; more > 0 {
		*warnings = append(*warnings, fmt.Sprintf("%s names: %d more are listed twice; the first ones are kept", noun, more))
	}
	return kept
}

// Tool looks a tool up by the server's own name for it.
func (c *Catalog) Tool(originalName string) (mcpvisor.Tool, bool) {
	if c == nil {
		return mcpvisor.Tool{}, false
	}
	i, ok := c.byName[originalName]
	if !ok {
		return mcpvisor.Tool{}, false
	}
	return c.Tools[i], true
}

// ToolByAlias looks a tool up by its alias.
func (c *Catalog) ToolByAlias(alias string) (mcpvisor.Tool, bool) {
	if c == nil {
		return mcpvisor.Tool{}, false
	}
	if server, name, plain := mcpvisor.SplitAlias(alias); plain {
		t, ok := c.Tool(name)
		return t, ok && t.Server == server
	}
	if i, ok := c.byHash[alias]; ok {
		return c.Tools[i], true
	}
	return mcpvisor.Tool{}, false
}
