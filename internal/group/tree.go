package group

import (
	"fmt"
	"slices"
	"strings"
)

// Validate checks the groups of one client: names, membership, and that nothing waits for itself. An error says
// what to correct.
func Validate(tree []Config) error {
	groups, parent := map[string]*Config{}, map[string]string{}
	for i := range tree {
		g := &tree[i]
		if groups[g.Name] != nil {
			return fmt.Errorf("group %q is defined twice; rename or remove one", g.Name)
		}
		groups[g.Name] = g
	}
	for i := range tree {
		g := &tree[i]
		for _, m := range g.Members {
			if other, ok := parent[m.Name]; ok {
				return fmt.Errorf("%q is in the groups %q and %q; a member has one place", m.Name, other, g.Name)
			}
			parent[m.Name] = g.Name
			if m.Group != (groups[m.Name] != nil) {
				return fmt.Errorf("group %q: the member %q must be a server and no group, or a group that is defined", g.Name, m.Name)
			}
			if m.Group && m.Restart == Transient {
				return fmt.Errorf("group %q: the group %q cannot be transient: a group does not end after its work", g.Name, m.Name)
			}
		}
	}
	for i := range tree {
		g := &tree[i]
		if _, ok := parent[g.Name]; ok == g.Root {
			return fmt.Errorf("group %q must be the root, or a member of one group", g.Name)
		}
		if g.Parallel && (g.Strategy == RestForOne || g.Strategy == OneForAll) {
			return fmt.Errorf("group %q: with the strategy %s, members start in order", g.Name, g.Strategy)
		}
		for _, m := range g.Members {
			for _, a := range m.After {
				if _, ok := parent[a]; !ok && groups[a] == nil {
					return fmt.Errorf("group %q: %q comes after %q, which is not defined", g.Name, m.Name, a)
				}
			}
		}
	}
	_, err := order(tree)
	return err
}

// StartOrder is an order in which the servers of a valid tree may start: each after what it comes after. To close
// them, walk it backwards.
func StartOrder(tree []Config) []string {
	names, _ := order(tree)
	return names
}

// event is the start of a server or group, or the moment when it is ready.
type event struct {
	name  string
	ready bool
}

// order sorts the starts so that each event comes after those that it waits for. What it waits for is in the
// order of the configuration, and so the result is, too.
func order(tree []Config) (servers []string, err error) {
	waits, isGroup := map[event][]event{}, map[string]bool{}
	var all []event
	for _, g := range tree {
		isGroup[g.Name] = true
		all = append(all, event{g.Name, true})
		for i, m := range g.Members {
			start, ready := event{m.Name, false}, event{m.Name, true}
			waits[start] = append(waits[start], event{g.Name, false})
			if i > 0 && !g.Parallel {
				waits[start] = append(waits[start], event{g.Members[i-1].Name, true})
			}
			for _, a := range m.After {
				waits[start] = append(waits[start], event{a, true})
			}
			waits[ready] = append(waits[ready], start)
			waits[event{g.Name, true}] = append(waits[event{g.Name, true}], ready)
		}
	}
	var path []event
	done := map[event]bool{}
	var visit func(e event) error
	visit = func(e event) error {
		if i := slices.Index(path, e); i >= 0 {
			return circle(append(path[i:], e))
		}
		if done[e] {
			return nil
		}
		path = append(path, e)
		for _, w := range waits[e] {
			if err := visit(w); err != nil {
				return err
			}
		}
		path = path[:len(path)-1]
		if done[e] = true; !e.ready && !isGroup[e.name] {
			servers = append(servers, e.name)
		}
		return nil
	}
	for _, e := range all {
		if err := visit(e); err != nil {
			return nil, err
		}
	}
	return servers, nil
}

// circle is the error for events that wait for each other.
func circle(path []event) error {
	var names []string
	for _, e := range path {
		if q := fmt.Sprintf("%q", e.name); len(names) == 0 || names[len(names)-1] != q {
			names = append(names, q)
		}
	}
	if len(names) == 1 {
		names = append(names, names[0])
	}
	return fmt.Errorf("groups: %s wait for each other in a circle; change \"after\", the order or the nesting of one of them", strings.Join(names, " → "))
}
