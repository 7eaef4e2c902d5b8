package messages

import (
	"sort"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Tool is one tool of one server, as it is listed.
type Tool struct {
	// Name is the qualified name that Call takes: "fs/list_directory".
	Name string `json:"name"`
	// Server is the registration that offers the tool.
	Server string `json:"server"`
	// OriginalName is the server's own name for it; it may hold a "/".
	OriginalName string `json:"originalName"`
	// Alias is the name for model providers; see [Alias]. Call takes it too.
	Alias string `json:"alias"`
	// Definition is what the server declared. Its InputSchema and OutputSchema
	// are json.RawMessage, byte for byte as the server sent them. Shared between
	// all who list it: do not change it.
	Definition *mcp.Tool `json:"definition"`
}

// Resource is one resource of one server.
type Resource struct {
	Server string `json:"server"`
	// URI is what Read takes beside the server's name.
	URI string `json:"uri"`
	// Definition is what the server declared. Do not change it.
	Definition *mcp.Resource `json:"definition"`
}

// ResourceTemplate is one resource template of one server.
type ResourceTemplate struct {
	Server string `json:"server"`
	// URITemplate is an RFC 6570 template.
	URITemplate string `json:"uriTemplate"`
	// Definition is what the server declared. Do not change it.
	Definition *mcp.ResourceTemplate `json:"definition"`
}

// Prompt is one prompt of one server.
type Prompt struct {
	// Name is the qualified name.
	Name   string `json:"name"`
	Server string `json:"server"`
	// OriginalName is what Prompt takes beside the server's name.
	OriginalName string `json:"originalName"`
	// Definition is what the server declared. Do not change it.
	Definition *mcp.Prompt `json:"definition"`
}

// Catalog is everything that one incarnation of a server offers. It is
// immutable once built, and sorted: equal servers list equally.
type Catalog struct {
	Tools     []Tool
	Resources []Resource
	Templates []ResourceTemplate
	Prompts   []Prompt
	// Warnings says what was left out and why: a list that failed, an entry that
	// could not be read, a cap that was reached.
	Warnings []string

	byName  map[string]int
	byAlias map[string]int
}

// NewCatalog sorts the lists by name or URI, drops duplicates with a warning
// (the first one listed wins), and indexes the tools.
func NewCatalog(tools []Tool, resources []Resource, templates []ResourceTemplate, prompts []Prompt, warnings []string) *Catalog {
	c := &Catalog{Warnings: warnings}
	c.Tools = sorted(tools, func(t Tool) string { return t.OriginalName }, "tool", &c.Warnings)
	c.Resources = sorted(resources, func(r Resource) string { return r.URI }, "resource", &c.Warnings)
	c.Templates = sorted(templates, func(r ResourceTemplate) string { return r.URITemplate }, "resource template", &c.Warnings)
	c.Prompts = sorted(prompts, func(p Prompt) string { return p.OriginalName }, "prompt", &c.Warnings)
	c.byName = make(map[string]int, len(c.Tools))
	c.byAlias = make(map[string]int, len(c.Tools))
	for i, t := range c.Tools {
		c.byName[t.OriginalName] = i
		c.byAlias[t.Alias] = i
	}
	return c
}

func sorted[T any](items []T, key func(T) string, noun string, warnings *[]string) []T {
	sort.SliceStable(items, func(i, j int) bool { return key(items[i]) < key(items[j]) })
	kept := items[:0]
	for _, item := range items {
		if len(kept) > 0 && key(kept[len(kept)-1]) == key(item) {
			*warnings = append(*warnings, noun+" \""+key(item)+"\" is listed twice; the first one is kept")
			continue
		}
		kept = append(kept, item)
	}
	return kept
}

// Tool looks a tool up by the server's own name for it.
func (c *Catalog) Tool(originalName string) (Tool, bool) {
	if c == nil {
		return Tool{}, false
	}
	i, ok := c.byName[originalName]
	if !ok {
		return Tool{}, false
	}
	return c.Tools[i], true
}

// ToolByAlias looks a tool up by its alias.
func (c *Catalog) ToolByAlias(alias string) (Tool, bool) {
	if c == nil {
		return Tool{}, false
	}
	i, ok := c.byAlias[alias]
	if !ok {
		return Tool{}, false
	}
	return c.Tools[i], true
}
