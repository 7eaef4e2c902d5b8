package mcpvisor

import (
	"fmt"
	"strings"
	"unsafe"
)

// Change says how the lists of a server changed when they were read again. The
// entries are qualified names of tools and prompts, URIs of resources, and URI
// templates.
type Change struct {
	// Each field says how one list changed; the zero Delta means not at all.
	Tools     Delta `json:"tools,omitzero"`
	Resources Delta `json:"resources,omitzero"`
	Templates Delta `json:"templates,omitzero"`
	Prompts   Delta `json:"prompts,omitzero"`
}

// String counts what changed, as in "tools +1 −0 ~2".
func (c *Change) String() string {
	if c == nil {
		return "nothing"
	}
	var parts []string
	for _, list := range []struct {
		noun string
		d    Delta
	}{{"tools", c.Tools}, {"resources", c.Resources}, {"templates", c.Templates}, {"prompts", c.Prompts}} {
		if !list.d.IsZero() {
			parts = append(parts, fmt.Sprintf("%s +%d −%d ~%d", list.noun,
				len(list.d.Added)+list.d.AddedMore, len(list.d.Removed)+list.d.RemovedMore, len(list.d.Changed)+list.d.ChangedMore))
		}
	}
	return strings.Join(parts, ", ")
}

// IsZero reports whether nothing changed.
func (c *Change) IsZero() bool {
	return c == nil || c.Tools.IsZero() && c.Resources.IsZero() && c.Templates.IsZero() && c.Prompts.IsZero()
}

// Bytes is the approximate memory, in bytes, that the names take.
func (c *Change) Bytes() (n int) {
	if c == nil {
		return 0
	}
	for _, d := range []*Delta{&c.Tools, &c.Resources, &c.Templates, &c.Prompts} {
		for _, names := range [][]string{d.Added, d.Removed, d.Changed} {
			for _, name := range names {
				n += len(name) + int(unsafe.Sizeof(name))
			}
		}
	}
	return n
}

// Delta says how one list changed. The entries are sorted. At most MaxDeltaNames of
// each kind are named, fewer if they are long; the rest is counted. The client's
// listings have them all.
type Delta struct {
	// Added and Removed are entries that were not listed before, or are not any more.
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
	// Changed are entries that have the same name and another definition.
	Changed []string `json:"changed,omitempty"`
	// AddedMore, RemovedMore and ChangedMore count the entries that are not named.
	AddedMore   int `json:"addedMore,omitempty"`
	RemovedMore int `json:"removedMore,omitempty"`
	ChangedMore int `json:"changedMore,omitempty"`
}

// MaxDeltaNames is how many entries of each kind a [Delta] names at most.
const MaxDeltaNames = 50

// IsZero reports whether nothing changed.
func (d Delta) IsZero() bool {
	return len(d.Added)+len(d.Removed)+len(d.Changed)+d.AddedMore+d.RemovedMore+d.ChangedMore == 0
}
