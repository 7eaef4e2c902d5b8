package listing

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/jsonbound"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// The functions below remove the characters that models read but people do not see
// ([display.ForModel]) from what a server lists. They copy what they change, as definitions are shared.

// Visible returns prose without such characters.
func Visible(text string) string {
	text, _ = display.ForModel(text)
	return text
}

func visibleTool(t mcp.Tool) *mcp.Tool {
	t.Title, t.Description = Visible(t.Title), Visible(t.Description)
	if t.Annotations != nil {
		annotations := *t.Annotations
		annotations.Title = Visible(annotations.Title)
		t.Annotations = &annotations
	}
	t.InputSchema, t.OutputSchema = visibleSchema(t.InputSchema), visibleSchema(t.OutputSchema)
	return &t
}

func visiblePrompt(p mcp.Prompt) *mcp.Prompt {
	p.Title, p.Description = Visible(p.Title), Visible(p.Description)
	var arguments []*mcp.PromptArgument
	for _, a := range p.Arguments {
		if a != nil {
			shown := *a
			shown.Title, shown.Description = Visible(a.Title), Visible(a.Description)
			arguments = append(arguments, &shown)
		}
	}
	p.Arguments = arguments
	return &p
}

func visibleResource(r mcp.Resource) *mcp.Resource {
	r.Name, r.Title, r.Description = Visible(r.Name), Visible(r.Title), Visible(r.Description)
	return &r
}

func visibleTemplate(t mcp.ResourceTemplate) *mcp.ResourceTemplate {
	t.Name, t.Title, t.Description = Visible(t.Name), Visible(t.Title), Visible(t.Description)
	return &t
}

// knownAnnotations are the annotations that the go-sdk knows.
var knownAnnotations = []string{"title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint", "audience", "priority", "lastModified"}

// fits reports whether a member that the go-sdk does not decode is small enough to be passed on.
func fits(value []byte) bool {
	_, err := jsonbound.Check(context.Background(), value, jsonbound.OpenMember)
	return err == nil
}

// encodeAsSent encodes an entry. Its _meta is that of raw, which the server sent, and so are annotations
// that the go-sdk does not know: it would lose those, and digits of large numbers.
func encodeAsSent(listed any, raw json.RawMessage) (text json.RawMessage, err error) {
	if text, err = message.Result(listed, false); err != nil {
		return nil, err
	}
	_ = jsonscan.EachMember(raw, func(key string, value []byte) error { // discovery has read it
		var more map[string]any
		if !fits(value) {
			return nil
		}
		switch key {
		case "_meta":
			if compact, err := message.Result(json.RawMessage(value), false); err == nil {
				text = jsonscan.ReplaceMember(text, key, compact)
			}
		case "annotations":
			more = decodeObject(value)
			maps.DeleteFunc(more, func(name string, _ any) bool {
				return slices.ContainsFunc(knownAnnotations, func(known string) bool { return strings.EqualFold(name, known) })
			})
		}
		if len(more) == 0 {
			return nil
		}
		dropHidden(more)
		maps.Copy(more, decodeObject(jsonscan.Member(text, key)))
		all, _ := message.Result(more, false) // it was decoded from JSON
		text = jsonscan.ReplaceMember(text, key, all)
		return nil
	})
	return text, nil
}

// decodeObject decodes an object. Its numbers stay as they are written.
func decodeObject(text []byte) (members map[string]any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	_ = d.Decode(&members) // anything else has no members
	return members
}

// visibleSchema returns a schema without such characters; a schema that has none is returned byte for
// byte. Descriptions and titles are cleaned. Names and values with such characters are removed as a
// whole: the server would not understand a cleaned one.
func visibleSchema(schema any) any {
	raw, ok := schema.(json.RawMessage)
	if !ok {
		return schema
	}
	if _, removed := display.ForModel(string(raw)); removed == "" && !bytes.Contains(raw, []byte(`\u`)) {
		return schema
	}
	var value any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // numbers stay as they are written
	if d.Decode(&value) != nil {
		return schema // the client has checked that it is JSON
	}
	if !dropHidden(value) {
		return schema
	}
	clean, err := message.Result(value, false)
	if err != nil {
		return schema
	}
	return clean
}

// dropHidden cleans a value of JSON in place, and reports whether it had anything to clean.
func dropHidden(value any) (changed bool) {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			text, isText := member.(string)
			list, isList := member.([]any)
			switch {
			case isHidden(name):
				delete(value, name)
			case isText && isHidden(text) && (name == "description" || name == "title" || name == "$comment"):
				value[name] = Visible(text)
			case isText && isHidden(text):
				delete(value, name)
			case isList:
				kept := visibleItems(list)
				value[name] = kept
				changed = dropHidden(kept) || len(kept) < len(list) || changed
				continue
			default:
				changed = dropHidden(member) || changed
				continue
			}
			changed = true
		}
	case []any:
		for i, item := range value {
			if list, ok := item.([]any); ok {
				kept := visibleItems(list)
				value[i] = kept
				changed = len(kept) < len(list) || changed
			}
			changed = dropHidden(value[i]) || changed
		}
	}
	return changed
}

// visibleItems returns the items of a list, except strings with hidden characters.
func visibleItems(list []any) []any {
	kept := make([]any, 0, len(list))
	for _, item := range list {
		if text, ok := item.(string); !ok || !isHidden(text) {
			kept = append(kept, item)
		}
	}
	return kept
}

func isHidden(text string) bool {
	_, removed := display.ForModel(text)
	return removed != ""
}
