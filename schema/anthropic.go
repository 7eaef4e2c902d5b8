package schema

import (
	"maps"
	"regexp"
	"slices"

	"github.com/mcpvisor/mcpvisor"
)

// Anthropic describes a tool for Anthropic's Messages API: {"name", "description",
// "input_schema"}.
func Anthropic(t mcpvisor.Tool) (tool map[string]any, changed []Note) {
	n := notes{tool: t.Name}
	m := jsonSchema(t, &n)
	dropKeys(m, &n)
	tool = map[string]any{"name": name(t), "input_schema": m}
	describe(tool, t, 0, &n)
	return tool, n.all()
}

// anthropicKey is what the name of a parameter has to match. Names within are free.
var anthropicKey = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// dropKeys removes the parameters whose names Anthropic rejects. Another name would mean
// nothing to the server.
func dropKeys(m map[string]any, n *notes) {
	properties, _ := m["properties"].(map[string]any)
	list, _ := m["required"].([]any)
	required := make(map[any]bool, len(list))
	for _, name := range list {
		required[name] = true
	}
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		if anthropicKey.MatchString(key) {
			continue
		}
		delete(properties, key)
		why := ""
		if required[key] {
			why = "; the tool requires it, so calls will fail"
			delete(required, key)
		}
		n.add(nil, "the parameter %.80q was removed: the provider takes names of 1 to 64 characters of [a-zA-Z0-9_.-]%s", key, why)
	}
	kept := slices.DeleteFunc(slices.Clone(list), func(e any) bool { return !required[e] })
	if len(kept) < len(list) {
		m["required"] = kept
	}
	if len(kept) == 0 {
		delete(m, "required")
	}
}
