// Package grouptree makes the tree of package group from the groups and servers of a client or a configuration file, and
// checks that they fit together.
package grouptree

import (
	"fmt"
	"maps"
	"slices"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/group"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Check returns an error if groups and servers do not fit together: a name that is both, a member with two places, or
// a *[group.CircleError]. A member that has no spec may get one later.
func Check(groups []mcpvisor.Group, specs map[string]*mcpvisor.ServerSpec) error {
	for _, g := range groups {
		if specs[g.Name] != nil {
			return fmt.Errorf("%q is the name of a server and of a group; rename one of them", g.Name)
		}
	}
	all := map[string]*mcpvisor.ServerSpec{}
	maps.Copy(all, specs)
	for _, g := range groups {
		for _, name := range g.Members {
			if all[name] == nil {
				all[name] = &mcpvisor.ServerSpec{}
			}
		}
	}
	return group.Validate(Configs(groups, all))
}

// Configs makes the configurations of groups with the members that have a spec. The first is that of the root.
func Configs(groups []mcpvisor.Group, specs map[string]*mcpvisor.ServerSpec) []group.Config {
	all := make([]group.Config, 1, len(groups)+1)
	all[0] = group.Config{Root: true, Apart: true, Parallel: true}
	byName, parent := map[string]*mcpvisor.Group{}, map[string]string{}
	for i := range groups {
		byName[groups[i].Name] = &groups[i]
		for _, name := range groups[i].Members {
			parent[name] = groups[i].Name
		}
	}
	// What a group comes after, its members come after, too: also those that join it later.
	after := func(name string, own []string) []string {
		own = slices.Clip(own)
		for range groups {
			g := byName[parent[name]]
			if g == nil {
				break
			}
			name, own = g.Name, append(own, g.After...)
		}
		return own
	}
	member := func(name string, apart bool) group.Member {
		if g := byName[name]; g != nil {
			m := group.Member{Name: name, Group: true, After: after(name, g.After)}
			if g.Temporary {
				m.Restart = group.Temporary
			}
			return m
		}
		spec := specs[name]
		m := group.Member{Name: name, After: after(name, spec.After)}
		switch {
		case apart:
		case spec.Transient:
			m.Restart = group.Transient
		case spec.Policy.MaxAttempts == 0 && spec.Policy.ParkEvery == 0:
			m.Restart = group.Temporary
		}
		return m
	}
	for _, g := range groups {
		config := group.Config{Name: g.Name, Strategy: g.Strategy, Intensity: g.Intensity, WhenSpent: g.WhenSpent, ParkEvery: g.ParkEvery, StartBound: g.StartBound}
		for _, name := range g.Members {
			if byName[name] != nil || specs[name] != nil {
				config.Members = append(config.Members, member(name, false))
			}
		}
		if parent[g.Name] == "" {
			all[0].Members = append(all[0].Members, member(g.Name, true))
			if config.WhenSpent == supervisor.SpentParent {
				config.WhenSpent = supervisor.SpentEvict
			}
		}
		all = append(all, config)
	}
	for _, name := range slices.Sorted(maps.Keys(specs)) {
		if parent[name] == "" {
			all[0].Members = append(all[0].Members, member(name, true))
		}
	}
	return all
}
