package schema

import (
	"maps"
	"slices"

	"github.com/mcpvisor/mcpvisor/internal/display"
)

// hiddenNote ends each note about a character that was removed.
const hiddenNote = "which a model reads and people do not see"

// dropHidden removes from a normal schema what [display.ForModel] removes. Prose is
// cleaned. A name or a value is removed as a whole: a cleaned one would mean nothing to the
// server.
func dropHidden(m map[string]any, n *notes) {
	each(m, nil, func(m map[string]any, at path) {
		for _, keyword := range slices.Sorted(maps.Keys(m)) {
			dropHiddenIn(m, keyword, at, n)
		}
	})
}

// dropHiddenIn does that for one keyword of a schema.
func dropHiddenIn(m map[string]any, keyword string, at path, n *notes) {
	if _, removed := display.ForModel(keyword); removed != "" {
		n.add(at, "a keyword was removed: its name has %s, %s", removed, hiddenNote)
		delete(m, keyword)
		return
	}
	switch keywords[keyword] {
	case formSchema, formSchemas:
	case formSchemaMap:
		named, _ := m[keyword].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(named)) {
			if _, removed := display.ForModel(name); removed != "" {
				n.add(at, "the entry %.80q of %s was removed: its name has %s, %s", name, keyword, removed, hiddenNote)
				delete(named, name)
			}
		}
	case formList, formNames:
		list, _ := m[keyword].([]any)
		kept := slices.DeleteFunc(slices.Clone(list), func(v any) bool {
			removed := hiddenIn(v)
			if removed != "" {
				n.add(at.to(keyword), "an element was removed: it has %s, %s", removed, hiddenNote)
			}
			return removed != ""
		})
		if len(kept) < len(list) {
			m[keyword] = kept
		}
		if len(list) > 0 && len(kept) == 0 {
			delete(m, keyword)
		}
	default:
		removed := hiddenIn(m[keyword])
		if removed == "" {
			return
		}
		if text, ok := m[keyword].(string); ok && (keyword == "title" || keyword == "description") {
			m[keyword], _ = display.ForModel(text)
			n.add(at, "%s were removed from the %s, %s", removed, keyword, hiddenNote)
			return
		}
		n.add(at, "%.40s was removed: it has %s, %s", keyword, removed, hiddenNote)
		delete(m, keyword)
	}
}

// hiddenIn names what [display.ForModel] would remove from a value of JSON; empty for
// nothing.
func hiddenIn(v any) (removed string) {
	switch v := v.(type) {
	case string:
		_, removed = display.ForModel(v)
	case []any:
		for i := 0; i < len(v) && removed == ""; i++ {
			removed = hiddenIn(v[i])
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if _, removed = display.ForModel(name); removed == "" {
				removed = hiddenIn(v[name])
			}
			if removed != "" {
				break
			}
		}
	}
	return removed
}
