package group

import (
	"fmt"
	"slices"
	"strings"
)

// Validate checks the groups of one client: names, membership, and that nothing waits for itself. A name in After
// that is no member may become one. An error says what to correct.
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
		if g.Parallel && g.ordered() {
			return fmt.Errorf("group %q: with the strategy %s, members start in order", g.Name, g.Strategy)
		}
	}
	return checkCircle(tree)
}

// Before returns, for each server of a valid tree that comes after others, all servers that must be ready each time
// it starts. together: also those that only start before it when all start, and end after it when all end.
func Before(tree []Config, together bool) map[string][]string {
	waits, isGroup := events(tree, together)
	before := map[string][]string{}
	for start := range waits {
		if start.ready || isGroup[start.name] {
			continue
		}
		seen := map[event]bool{}
		var visit func(e event)
		visit = func(e event) {
			for _, w := range waits[e] {
				if seen[w] {
					continue
				}
				if seen[w] = true; w.ready && !isGroup[w.name] {
					before[start.name] = append(before[start.name], w.name)
				}
				visit(w)
			}
		}
		visit(start)
	}
	return before
}

// event is the start of a server or group, or the moment when it is ready.
type event struct {
	name  string
	ready bool
}

// events returns what each event waits for. together is as in [Before].
func events(tree []Config, together bool) (waits map[event][]event, isGroup map[string]bool) {
	waits, isGroup = map[event][]event{}, map[string]bool{}
	for _, g := range tree {
		isGroup[g.Name] = true
		for i, m := range g.Members {
			start, ready := event{m.Name, false}, event{m.Name, true}
			waits[start] = append(waits[start], event{g.Name, false})
			if i > 0 && (g.ordered() || together && !g.Parallel) {
				waits[start] = append(waits[start], event{g.Members[i-1].Name, true})
			}
			for _, a := range m.After {
				waits[start] = append(waits[start], event{a, true})
			}
			waits[ready] = append(waits[ready], start)
			waits[event{g.Name, true}] = append(waits[event{g.Name, true}], ready)
		}
	}
	return waits, isGroup
}

// checkCircle returns an error if an event waits for itself.
func checkCircle(tree []Config) error {
	waits, _ := events(tree, true)
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
		done[e] = true
		return nil
	}
	for _, g := range tree {
		if err := visit(event{g.Name, true}); err != nil {
			return err
		}
	}
	return nil
}

// CircleError says that servers and groups wait for each other.
type CircleError struct {
	// Path names them in the order in which each waits for the next. The first is the last, too.
	Path []string
}

// Error says what to change.
func (e *CircleError) Error() string {
	return fmt.Sprintf("groups: \"%s\" wait for each other in a circle; change \"after\", the order or the nesting of one of them", strings.Join(e.Path, `" → "`))
}

// circle is the error for events that wait for each other.
func circle(path []event) error {
	e := new(CircleError)
	for _, v := range path {
		if n := len(e.Path); n == 0 || e.Path[n-1] != v.name {
			e.Path = append(e.Path, v.name)
		}
	}
	if len(e.Path) == 1 {
		e.Path = append(e.Path, e.Path[0])
	}
	return e
}
