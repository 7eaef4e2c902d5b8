package config

import (
	"maps"
	"slices"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor"
)

// tools is what an entry says about the tools of its server. Several keys may
// allow tools; each of them narrows what the others allow.
type tools struct {
	allowed bool // some key did
	allow   []string
	deny    []string

	approvals map[string]*hujson.Value // where "autoApprove" and "alwaysAllow" stand
}

// toolsKey reads "tools": a list of what is offered; our own {"allow": […],
// "deny": […]}; or the name of each tool with false, or {"enabled": false}, for one
// that is switched off. What else hosts write there is of their own use.
func (e *entry) toolsKey(v *hujson.Value) {
	object, ok := v.Value.(*hujson.Object)
	if !ok {
		if _, isList := v.Value.(*hujson.Array); !isList {
			e.warn(v, "\"tools\" is not used; write a list of the tools that are offered, as in [\"read_*\", \"list_directory\"]")
			return
		}
		e.allowTools(v, "tools")
		return
	}
	for i := range object.Members {
		m := &object.Members[i]
		_, isList := m.Value.Value.(*hujson.Array)
		switch key := name(m); {
		case key == "allow" && isList:
			e.allowTools(&m.Value, "allow")
		case key == "deny" && isList:
			e.denyTools(&m.Value)
		case isOff(&m.Value):
			e.tools.deny = append(e.tools.deny, key)
		}
	}
}

// isOff reports whether a value switches a tool off.
func isOff(v *hujson.Value) bool {
	if lit, ok := literal(v, 't'); ok {
		return !lit.Bool()
	}
	object, ok := v.Value.(*hujson.Object)
	if !ok {
		return false
	}
	for i := range object.Members {
		m := &object.Members[i]
		if lit, ok := literal(&m.Value, 't'); ok && (name(m) == "enabled" && !lit.Bool() || name(m) == "disabled" && lit.Bool()) {
			return true
		}
	}
	return false
}

// allowTools reads a list of tools that are offered, and no others.
func (e *entry) allowTools(v *hujson.Value, key string) {
	names := e.texts(v)
	if len(names) == 0 && !e.broken {
		e.warn(v, "%q is an empty list, so no tool of this server is offered; remove the key to offer all", key)
	}
	if !e.tools.allowed {
		e.tools.allowed, e.tools.allow = true, names
		return
	}
	e.tools.allow = narrowed(e.tools.allow, names)
}

func (e *entry) denyTools(v *hujson.Value) { e.tools.deny = append(e.tools.deny, e.texts(v)...) }

// narrowed is what two lists allow both: the patterns of each that the other one
// allows as they stand.
func narrowed(a, b []string) (both []string) {
	for _, lists := range [][2][]string{{a, b}, {b, a}} {
		other := mcpvisor.ToolFilter{Allow: lists[1]}
		for _, pattern := range lists[0] {
			if len(lists[1]) > 0 && other.Allows(pattern) && !slices.Contains(both, pattern) {
				both = append(both, pattern)
			}
		}
	}
	return both
}

// approval notes a key that lists tools which its host calls without asking. Hosts
// write empty lists by themselves.
func (e *entry) approval(v *hujson.Value, key string) {
	if list, ok := v.Value.(*hujson.Array); !ok || len(list.Elements) > 0 {
		if e.tools.approvals == nil {
			e.tools.approvals = map[string]*hujson.Value{}
		}
		e.tools.approvals[key] = v
	}
}

// applyTools puts the filter into the spec, and says once for each key of a file
// that nothing here asks before a call.
func (e *entry) applyTools() {
	t := &e.tools
	e.spec.Tools = mcpvisor.ToolFilter{Allow: t.allow, Deny: t.deny}
	if t.allowed && len(t.allow) == 0 {
		e.spec.Tools.Deny = []string{"*"}
	}
	for _, key := range slices.Sorted(maps.Keys(t.approvals)) {
		if e.r.approvals[key] {
			continue
		}
		if e.r.approvals == nil {
			e.r.approvals = map[string]bool{}
		}
		e.r.approvals[key] = true
		e.warn(t.approvals[key], "%q has no effect here, in this entry and all others: mcpvisor never asks before a call; "+
			"to switch tools off, list them in \"disabledTools\"", key)
	}
}
