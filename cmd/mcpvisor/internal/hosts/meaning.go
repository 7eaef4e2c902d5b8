package hosts

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// literal keeps ${ a text: a host that replaces no variables starts the server with it. In an
// address it cannot be meant as a text, so it stays a variable.
func literal(entry object, host string, item *Item) object {
	changed := false
	kept, _ := mapTexts(entry, func(text string) string {
		changed = changed || strings.Contains(text, "${")
		return strings.ReplaceAll(text, "${", "$${")
	}).(object)
	for _, key := range addressKeys {
		if address, _ := entry.Get(key).(string); strings.Contains(address, "${") {
			kept.Set(key, address)
			item.Notes = append(item.Notes, fmt.Sprintf("the variable in %q is replaced here, which %s does not do", key, host))
		}
	}
	changed = changed && strings.Contains(fmt.Sprint(kept), "$${")
	if changed {
		item.Notes = append(item.Notes, "${ is written as $${, because "+host+" replaces no variables; write ${ where you want one replaced")
	}
	return kept
}

// atProject makes paths of a project absolute, for a file that is elsewhere.
func (p *Plan) atProject(entry object) object {
	entry, _ = mapTexts(entry, func(text string) string { return strings.ReplaceAll(text, "${workspaceFolder}", p.env.Dir) }).(object)
	for _, key := range []string{"cwd", "envFile"} {
		path, ok := entry.Get(key).(string)
		if ok && path != "" && !filepath.IsAbs(path) && !strings.HasPrefix(path, "~") && !strings.HasPrefix(path, "$") {
			entry.Set(key, filepath.Join(p.env.Dir, path))
		}
	}
	return entry
}

// noteRelative says what of an entry of the user now begins at the directory of the target.
// The host took the directory that was open, which no file of the user can name.
func (p *Plan) noteRelative(entry object, item *Item) {
	var relative []string
	mapTexts(entry, func(text string) string {
		if strings.Contains(text, "${workspaceFolder") && !slices.Contains(relative, "${workspaceFolder}") {
			relative = append(relative, "${workspaceFolder}")
		}
		return text
	})
	for _, key := range []string{"cwd", "envFile"} {
		if path, ok := entry.Get(key).(string); ok && path != "" && !filepath.IsAbs(path) && !strings.HasPrefix(path, "~") && !strings.HasPrefix(path, "$") {
			relative = append(relative, key)
		}
	}
	if len(relative) > 0 {
		item.Notes = append(item.Notes, fmt.Sprintf("%s now begins at the directory of %s, not at the project; write the path in full",
			strings.Join(relative, ", "), p.target.Path()))
	}
}

// mapTexts returns a copy of a value with every text in it changed.
func mapTexts(v any, change func(string) string) any {
	switch v := v.(type) {
	case string:
		return change(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = mapTexts(v[i], change)
		}
		return out
	case object:
		out := object{}
		for _, m := range v {
			out.Set(m.Key, mapTexts(m.Value, change))
		}
		return out
	}
	return v
}
