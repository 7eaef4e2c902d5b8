package schema

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

// Format turns one tool into what a provider takes. [OpenAI], [OpenAIResponses],
// [Anthropic], [Gemini] and [Ollama] are formats.
type Format func(tool mcpvisor.Tool) (function map[string]any, notes []Note)

// List formats tools in their order. The list is never nil; the notes are those of all
// tools.
func List(tools []mcpvisor.Tool, format Format) (functions []map[string]any, notes []Note) {
	functions = make([]map[string]any, 0, len(tools))
	for _, t := range tools {
		f, changed := format(t)
		functions = append(functions, f)
		notes = append(notes, changed...)
	}
	return functions, notes
}

// Parameters returns the input schema of a tool in a form that most providers take: an object
// with properties, without references. Adapters to frameworks use it if they do not know the
// provider. Frameworks validate arguments against it by older drafts, so keywords that those
// drafts lack or read differently are removed.
func Parameters(t mcpvisor.Tool) (parameters map[string]any, changed []Note) {
	n := notes{tool: t.Name}
	m := jsonSchema(t, &n)
	room := patternRoom(maxPatternSteps)
	each(m, nil, func(m map[string]any, at path) {
		room.dropPatterns(m, at, &n)
		dropRest(m, at, &n)
		if _, has := m["minContains"]; has {
			n.add(at, "contains was removed: older drafts do not know minContains")
			delete(m, "contains")
			delete(m, "minContains")
		}
	})
	return m, n.all()
}

// Description returns the description of a tool as a model may read it: without the characters
// that a model reads and people do not see. Adapters to frameworks use it, with [Parameters]. It
// is empty if the tool has none, and has any length that the limits of the server allow.
func Description(t mcpvisor.Tool) string {
	text, _ := description(t)
	return text
}

// description is Description, and what was removed.
func description(t mcpvisor.Tool) (text, removed string) {
	if t.Definition == nil {
		return "", ""
	}
	return display.ForModel(t.Definition.Description)
}

// dropRest removes "items" beside "prefixItems": a reader that does not know the latter
// takes the former for all elements.
func dropRest(m map[string]any, at path, n *notes) {
	_, prefix := m["prefixItems"]
	if _, rest := m["items"]; prefix && rest {
		n.add(at, "items was removed: it is about the elements after those of prefixItems")
		delete(m, "items")
	}
}

// name is the name of a function: the alias of the tool.
func name(t mcpvisor.Tool) string {
	if t.Alias != "" {
		return t.Alias
	}
	return mcpvisor.Alias(t.Server, t.OriginalName)
}

// maxDescription is how many characters OpenAI takes as description of a function.
const maxDescription = 1024

// describe adds the description to a function, if there is one. limit bounds its
// characters; 0 sets no bound.
func describe(function map[string]any, t mcpvisor.Tool, limit int, n *notes) {
	text, removed := description(t)
	if removed != "" {
		n.add(nil, "%s were removed from the description, %s", removed, hiddenNote)
	}
	if text == "" {
		return
	}
	if short, cut := shorten(text, limit); cut {
		n.add(nil, "the description was shortened from %d to %d characters, the longest that the provider takes",
			utf8.RuneCountInString(text), limit)
		text = short
	}
	function["description"] = text
}

// shorten cuts a text to limit characters, the last of which is "…".
func shorten(text string, limit int) (short string, cut bool) {
	if limit <= 0 || len(text) <= limit {
		return text, false
	}
	n, end := 0, 0
	for i := range text {
		if n++; n == limit {
			end = i
		}
	}
	if n <= limit {
		return text, false
	}
	return text[:end] + "…", true
}

// inputSchema decodes the input schema of a tool into a value of its own.
func inputSchema(t mcpvisor.Tool, n *notes) any {
	if t.Definition == nil || t.Definition.InputSchema == nil {
		return nil
	}
	raw, ok := t.Definition.InputSchema.(json.RawMessage)
	if !ok { // not from a listing of a client
		var err error
		if raw, err = json.Marshal(t.Definition.InputSchema); err != nil {
			n.add(nil, "the input schema cannot be written as JSON, so any arguments are allowed")
			return nil
		}
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		n.add(nil, "the input schema is not valid JSON, so any arguments are allowed")
		return nil
	}
	return v
}
