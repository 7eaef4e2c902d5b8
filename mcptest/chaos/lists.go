package chaos

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor/facade"
)

// Lists returns what a ready server offers: for each entry of its four lists its definition as
// JSON, by kind and name, as "tool echo" or "resource file:///x". It is empty while the server
// is down. Two of them are equal if the lists are equal in content.
func Lists(c *facade.Client, server string) map[string]string {
	lists := map[string]string{}
	add := func(owner, kind, name string, definition any) {
		if owner != server {
			return
		}
		data, err := json.Marshal(definition)
		if err != nil {
			data = []byte(err.Error())
		}
		lists[kind+" "+name] = string(data)
	}
	for tool := range c.AllTools() {
		add(tool.Server, "tool", tool.OriginalName, tool.Definition)
	}
	for _, r := range c.Resources() {
		add(r.Server, "resource", r.URI, r.Definition)
	}
	for _, t := range c.ResourceTemplates() {
		add(t.Server, "template", t.URITemplate, t.Definition)
	}
	for _, p := range c.Prompts() {
		add(p.Server, "prompt", p.OriginalName, p.Definition)
	}
	return lists
}

// difference says how lists differ, in one line; empty if they do not.
func difference(before, after map[string]string) string {
	var missing, added, changed []string
	for key, text := range before {
		switch now, listed := after[key]; {
		case !listed:
			missing = append(missing, key)
		case now != text:
			changed = append(changed, key)
		}
	}
	for key := range after {
		if _, listed := before[key]; !listed {
			added = append(added, key)
		}
	}
	var parts []string
	for _, part := range []struct {
		verb string
		keys []string
	}{{"missing", missing}, {"new", added}, {"changed", changed}} {
		if len(part.keys) > 0 {
			slices.Sort(part.keys)
			parts = append(parts, part.verb+": "+first(3, part.keys))
		}
	}
	return strings.Join(parts, "; ")
}

// first joins the first of some names.
func first(most int, names []string) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
