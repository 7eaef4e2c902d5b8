package config

import (
	"maps"
	"slices"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor"
)

// toolKeys is what the keys of an entry say about the tools of its server.
type toolKeys struct {
	allowed bool     // a key allows tools
	allow   []string // patterns that all such keys allow
	deny    []string

	approvals map[string]*hujson.Value // the values of "autoApprove" and "alwaysAllow"
}

// readTools reads "tools": a list of the tools that are offered; our own
// {"allow": […], "deny": […]}; or an object of tools, in which {"NAME": false} hides one
// and {"NAME": {…}} has its setting. Anything else in that object is for the host that wrote it.
func (e *entry) readTools(v *hujson.Value) {
	object, ok := v.Value.(*hujson.Object)
	if !ok {
		if _, isList := v.Value.(*hujson.Array); !isList {
			e.warn(v, "\"tools\" is ignored, because it is neither a list nor an object; write the tools that are offered, as in [\"read_*\", \"list_directory\"]")
			return
		}
		e.allowTools(v)
		return
	}
	for name, m := range members(object) {
		_, isList := m.Value.Value.(*hujson.Array)
		tool, isObject := m.Value.Value.(*hujson.Object)
		flag, isFlag := literal(&m.Value, 't')
		r := findRow(toolRows, name)
		switch {
		case r != nil && isList:
			e.within("."+name, func() { r.read(e, &m.Value) })
		case isObject:
			e.readToolSetting(name, tool)
		case isFlag && !flag.Bool():
			e.tools.deny = append(e.tools.deny, name)
		}
	}
}

// allowTools reads a list of tools that are offered. After the first such list,
// each one narrows what is offered.
func (e *entry) allowTools(v *hujson.Value) {
	patterns := e.readList(v)
	if len(patterns) == 0 && !e.broken {
		e.warn(v, "%q is an empty list, so no tool of this server is offered; remove the key to offer all tools", e.key)
	}
	if !e.tools.allowed {
		e.tools.allowed, e.tools.allow = true, patterns
		return
	}
	e.tools.allow = intersect(e.tools.allow, patterns)
}

// denyTools reads a list of tools that are hidden.
func (e *entry) denyTools(v *hujson.Value) { e.tools.deny = append(e.tools.deny, e.readList(v)...) }

// intersect returns the patterns of each list that match a pattern of the other,
// taken as names. An empty list matches nothing.
func intersect(a, b []string) (both []string) {
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

// noteApproval notes a key that lists tools which its host calls without asking.
// An empty list is not worth a warning: hosts write it by themselves.
func (e *entry) noteApproval(v *hujson.Value) {
	if list, ok := v.Value.(*hujson.Array); ok && len(list.Elements) == 0 {
		return
	}
	e.tools.approvals[e.key] = v
}

// setTools puts the filter into the spec. It warns about keys of approval, once
// for each key of a file.
func (e *entry) setTools() {
	t := &e.tools
	e.spec.Tools = mcpvisor.ToolFilter{Allow: t.allow, Deny: t.deny}
	if t.allowed && len(t.allow) == 0 {
		e.spec.Tools.Deny = []string{"*"} // an empty Allow would allow all
	}
	for _, key := range slices.Sorted(maps.Keys(t.approvals)) {
		if e.p.approvals[key] {
			continue
		}
		e.p.approvals[key] = true
		e.warn(t.approvals[key], "%q has no effect, in this entry and all others, because mcpvisor asks before a call only where \"rules\" say so; "+
			"to hide tools, list them in \"disabledTools\"", key)
	}
}
