package mcptest

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/mcptest/internal/tools"
)

// catalog holds what the server offers at present. Only the tools can change.
type catalog struct {
	// mu guards tools and issued; the other fields do not change.
	mu        sync.RWMutex
	tools     []ToolDef
	resources []ResourceDef
	templates []TemplateDef
	prompts   []PromptDef
	// issued counts the new cursors that ActionRepeatCursor has issued.
	issued int
}

func newCatalog(s Script) *catalog {
	return &catalog{tools: slices.Clone(s.Tools), resources: s.Resources, templates: s.Templates, prompts: s.Prompts}
}

// startMark stands for the number of the incarnation, see [Script].
const startMark = "{start}"

// forStart returns the script of one incarnation. Its lists are its own.
func (s Script) forStart(start int) Script {
	number := strconv.Itoa(start)
	mark := func(text *string) { *text = strings.ReplaceAll(*text, startMark, number) }
	s.Tools, s.Prompts = slices.Clone(s.Tools), slices.Clone(s.Prompts)
	s.Resources, s.Templates = slices.Clone(s.Resources), slices.Clone(s.Templates)
	for i := range s.Tools {
		mark(&s.Tools[i].Description)
	}
	for i := range s.Resources {
		mark(&s.Resources[i].Name)
	}
	for i := range s.Templates {
		mark(&s.Templates[i].Name)
	}
	for i := range s.Prompts {
		mark(&s.Prompts[i].Description)
	}
	return s
}

// find returns the index of a tool, or -1. c.mu is held.
func (c *catalog) find(name string) int {
	return slices.IndexFunc(c.tools, func(t ToolDef) bool { return t.Name == name })
}

func (c *catalog) tool(name string) (ToolDef, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if i := c.find(name); i >= 0 {
		return c.tools[i], true
	}
	return ToolDef{}, false
}

// add adds a tool, or replaces the one of the same name.
func (c *catalog) add(t ToolDef) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := c.find(t.Name); i >= 0 {
		c.tools[i] = t
	} else {
		c.tools = append(c.tools, t)
	}
}

// remove removes a tool and reports whether it was offered.
func (c *catalog) remove(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.find(name)
	if i >= 0 {
		c.tools = slices.Delete(c.tools, i, i+1)
	}
	return i >= 0
}

// definitions returns the entries of one of the four lists, and the member of the
// result that they belong to.
func (c *catalog) definitions(method string) (member string, items []json.RawMessage) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	switch method {
	case "resources/list":
		return "resources", definitions(c.resources)
	case "resources/templates/list":
		return "resourceTemplates", definitions(c.templates)
	case "prompts/list":
		return "prompts", definitions(c.prompts)
	}
	return "tools", definitions(c.tools)
}

func definitions[T interface{ definition() json.RawMessage }](items []T) []json.RawMessage {
	out := make([]json.RawMessage, 0, len(items))
	for _, item := range items {
		out = append(out, item.definition())
	}
	return out
}

// badEntry is a list entry that a strict client rejects.
const badEntry = `{"name":12,"inputSchema":{"type":"object"}}`

// list returns one page of one of the four lists.
func (s *server) list(r *request) ([]byte, *jsonrpc.Error) {
	member, items := s.catalog.definitions(r.method)
	first := 0
	endless := r.faultOf(ActionRepeatCursor)
	if r.params.Cursor != "" && endless == nil {
		n, err := strconv.Atoi(r.params.Cursor)
		if err != nil || n < 0 || n > len(items) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "cursor " + r.params.Cursor + " was not issued by this server"}
		}
		first = n
	}
	last := len(items)
	if s.script.PageSize > 0 {
		last = min(last, first+s.script.PageSize)
	}
	result := map[string]any{}
	if last < len(items) {
		result["nextCursor"] = strconv.Itoa(last)
	}
	page := items[first:last]
	if f := r.faultOf(ActionBadTool); f != nil {
		page = append(page, json.RawMessage(cmp.Or(f.Text, badEntry)))
	}
	if endless != nil {
		result["nextCursor"] = s.endlessCursor(endless.Text)
	}
	result[member] = page
	if r.modern {
		result["ttlMs"], result["cacheScope"] = 0, "private"
	}
	return members(result), nil
}

func (s *server) endlessCursor(text string) string {
	if text != "*" {
		return cmp.Or(text, "again")
	}
	s.catalog.mu.Lock()
	defer s.catalog.mu.Unlock()
	s.catalog.issued++
	return "more-" + strconv.Itoa(s.catalog.issued)
}

// lookUp returns a resource by its URI, or by a template that matches it.
func (c *catalog) lookUp(uri string) (ResourceDef, bool) {
	if i := slices.IndexFunc(c.resources, func(r ResourceDef) bool { return r.URI == uri }); i >= 0 {
		return c.resources[i], true
	}
	for _, t := range c.templates {
		prefix, _, _ := strings.Cut(t.URITemplate, "{")
		if rest, ok := strings.CutPrefix(uri, prefix); ok && rest != "" {
			return ResourceDef{URI: uri, MIMEType: t.MIMEType, Text: rest}, true
		}
	}
	return ResourceDef{}, false
}

// codeNoResource is the error code for an unknown resource in versions up to
// 2025-11-25.
const codeNoResource = -32002

func (s *server) readResource(r *request) ([]byte, *jsonrpc.Error) {
	res, ok := s.catalog.lookUp(r.params.URI)
	if !ok {
		code := int64(codeNoResource)
		if r.modern {
			code = jsonrpc.CodeInvalidParams
		}
		return nil, &jsonrpc.Error{Code: code, Message: "resource " + r.params.URI + " is not known", Data: tools.JSON(map[string]string{"uri": r.params.URI})}
	}
	result := map[string]any{"contents": []json.RawMessage{res.contents()}}
	if r.modern {
		result["ttlMs"], result["cacheScope"] = 0, "private"
	}
	return members(result), nil
}

// fill inserts the arguments into the text of the prompt. missing is the first argument
// that was not passed.
func (p PromptDef) fill(args map[string]string) (text, missing string) {
	text = p.Text
	for _, name := range p.Arguments {
		value, ok := args[name]
		if !ok {
			return "", name
		}
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text, ""
}

func (s *server) getPrompt(r *request) ([]byte, *jsonrpc.Error) {
	i := slices.IndexFunc(s.catalog.prompts, func(p PromptDef) bool { return p.Name == r.params.Name })
	if i < 0 {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "prompt " + r.params.Name + " is not known"}
	}
	p := s.catalog.prompts[i]
	var args map[string]string
	if len(r.params.Arguments) > 0 {
		if err := json.Unmarshal(r.params.Arguments, &args); err != nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "prompt arguments: " + err.Error()}
		}
	}
	text, missing := p.fill(args)
	if missing != "" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "prompt " + p.Name + " needs the argument " + missing}
	}
	return members(map[string]any{
		"description": omitEmpty(p.Description),
		"messages": []any{map[string]any{
			"role": "user", "content": map[string]string{"type": "text", "text": text},
		}},
	}), nil
}
