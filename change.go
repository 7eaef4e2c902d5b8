package mcpvisor

import (
	"fmt"
	"strings"
	"unsafe"
)

// LogMessage is one line of a server's log (notifications/message).
type LogMessage struct {
	// Level is the severity: debug, info, notice, warning, error, critical, alert
	// or emergency.
	Level string `json:"level"`
	// Logger is the server's name for what logs; may be empty.
	Logger string `json:"logger,omitempty"`
	// Text is the message: text without control characters, or JSON, cut at 8 KiB.
	Text string `json:"text"`
}

// Change is how one refresh changed what a server offers. Each entry is a
// qualified name, or a URI.
type Change struct {
	Tools     Delta `json:"tools,omitzero"`
	Resources Delta `json:"resources,omitzero"`
	Templates Delta `json:"templates,omitzero"`
	Prompts   Delta `json:"prompts,omitzero"`
}

// String counts what changed.
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

// Delta is how one list changed. The entries are in order. Of each kind at most
// [MaxDeltaNames] are named, fewer of long ones, and the rest are counted: events wait
// for those who read them, and a list may have 10,000 entries. The listing has them
// all.
type Delta struct {
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
	// Changed have the same name and another definition.
	Changed []string `json:"changed,omitempty"`
	// AddedMore, RemovedMore and ChangedMore are how many there are beside those.
	AddedMore   int `json:"addedMore,omitempty"`
	RemovedMore int `json:"removedMore,omitempty"`
	ChangedMore int `json:"changedMore,omitempty"`
}

// MaxDeltaNames is how many entries of each kind a [Delta] names.
const MaxDeltaNames = 50

// IsZero reports whether nothing changed.
func (d Delta) IsZero() bool {
	return len(d.Added)+len(d.Removed)+len(d.Changed)+d.AddedMore+d.RemovedMore+d.ChangedMore == 0
}

// Bytes is about how much memory the names take.
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

// IsZero reports whether nothing changed.
func (c *Change) IsZero() bool {
	return c == nil || c.Tools.IsZero() && c.Resources.IsZero() && c.Templates.IsZero() && c.Prompts.IsZero()
}
