package messages

import (
	"fmt"
	"strings"
)

// Lists is a set of the lists that a server offers.
type Lists uint8

// The lists. Resource templates go with the resources, as in the protocol.
const (
	ListTools Lists = 1 << iota
	ListResources
	ListPrompts
	AllLists = ListTools | ListResources | ListPrompts
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
			parts = append(parts, fmt.Sprintf("%s +%d −%d ~%d", list.noun, len(list.d.Added), len(list.d.Removed), len(list.d.Changed)))
		}
	}
	return strings.Join(parts, ", ")
}

// Delta is how one list changed. The entries are in order.
type Delta struct {
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
	// Changed have the same name and another definition.
	Changed []string `json:"changed,omitempty"`
}

// IsZero reports whether nothing changed.
func (d Delta) IsZero() bool { return len(d.Added)+len(d.Removed)+len(d.Changed) == 0 }

// IsZero reports whether nothing changed.
func (c *Change) IsZero() bool {
	return c == nil || c.Tools.IsZero() && c.Resources.IsZero() && c.Templates.IsZero() && c.Prompts.IsZero()
}
