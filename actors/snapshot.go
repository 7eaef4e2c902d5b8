package actors

import (
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
)

// Snapshot is the registries at one moment. It is immutable, shared by all readers, and
// replaced as a whole by the manager. A change or a removal of one server copies one
// pointer for each other server, and nothing of their catalogs. The names are copied only
// when servers come.
type Snapshot struct {
	// index gives each name its position in order and views. It and order are shared by
	// the snapshots until servers come, so they hold the names of removed ones, too.
	index   map[string]int
	order   []string        // sorted
	views   []*View         // nil for a removed server
	removed int             // how many of views are nil
	names   func() []string // the names that are left
	closed  bool
	next    chan struct{} // closed when this snapshot is replaced

	// aliases caches the looked-up aliases that end with a hash: alias → mcpvisor.Tool.
	// It is the only part that changes.
	aliases sync.Map
}

func newSnapshot(servers map[string]*View, closed bool) *Snapshot {
	return snapshotOf(slices.Sorted(maps.Keys(servers)), func(name string) *View { return servers[name] }, closed)
}

// snapshotOf makes a snapshot of the servers with these names, which are in order.
func snapshotOf(names []string, view func(name string) *View, closed bool) *Snapshot {
	s := &Snapshot{order: names, index: make(map[string]int, len(names)), views: make([]*View, len(names)),
		names: func() []string { return names }, closed: closed, next: make(chan struct{})}
	for i, name := range names {
		s.index[name], s.views[i] = i, view(name)
	}
	return s
}

// with returns a snapshot in which one server's view is replaced, or removed
// if v is nil. Views are shared, not copied.
func (s *Snapshot) with(name string, v *View) *Snapshot {
	return s.withAll(map[string]*View{name: v})
}

// withAll is with for some servers at once.
func (s *Snapshot) withAll(changed map[string]*View) *Snapshot {
	var added []string
	for name, v := range changed {
		if _, indexed := s.index[name]; !indexed && v != nil {
			added = append(added, name)
		}
	}
	if len(added) > 0 || 2*s.removed > len(s.views) {
		view := func(name string) *View {
			if v, isChanged := changed[name]; isChanged {
				return v
			}
			return s.Server(name)
		}
		names := slices.DeleteFunc(append(added, s.order...), func(name string) bool { return view(name) == nil })
		slices.Sort(names)
		return snapshotOf(names, view, s.closed)
	}
	next := &Snapshot{index: s.index, order: s.order, views: slices.Clone(s.views), removed: s.removed, names: s.names,
		closed: s.closed, next: make(chan struct{})}
	for name, v := range changed {
		i, indexed := s.index[name]
		if !indexed {
			continue
		}
		switch before := next.views[i]; {
		case before != nil && v == nil:
			next.removed++
		case before == nil && v != nil:
			next.removed--
		default:
			next.views[i] = v
			continue
		}
		next.views[i], next.names = v, nil
	}
	if next.names == nil {
		next.names = sync.OnceValue(next.namesLeft)
	}
	return next
}

// namesLeft returns the names of the servers that were not removed.
func (s *Snapshot) namesLeft() []string {
	names := make([]string, 0, len(s.views)-s.removed)
	for i, v := range s.views {
		if v != nil {
			names = append(names, s.order[i])
		}
	}
	return names
}

// Names returns the registered servers in order. Do not change it.
func (s *Snapshot) Names() []string { return s.names() }

// Server returns the view of one server, or nil.
func (s *Snapshot) Server(name string) *View {
	if i, known := s.index[name]; known {
		return s.views[i]
	}
	return nil
}

// all yields the views of the registered servers in the order of their names.
func (s *Snapshot) all() iter.Seq[*View] {
	return func(yield func(*View) bool) {
		for _, v := range s.views {
			if v != nil && !yield(v) {
				return
			}
		}
	}
}

// Catalogs yields what the ready servers offer, in the order of their names. It copies
// nothing, and leaves out servers whose session has died.
func (s *Snapshot) Catalogs() iter.Seq[*catalog.Catalog] {
	return func(yield func(*catalog.Catalog) bool) {
		for v := range s.all() {
			if c := v.Listed(); c != nil && !yield(c) {
				return
			}
		}
	}
}

// Tools lists the tools of all ready servers by server, then by name. The
// slice is the caller's.
func (s *Snapshot) Tools() []mcpvisor.Tool {
	return gather(s, func(c *catalog.Catalog) []mcpvisor.Tool { return c.Tools })
}

// Resources lists the resources of all ready servers.
func (s *Snapshot) Resources() []mcpvisor.Resource {
	return gather(s, func(c *catalog.Catalog) []mcpvisor.Resource { return c.Resources })
}

// Templates lists the resource templates of all ready servers.
func (s *Snapshot) Templates() []mcpvisor.ResourceTemplate {
	return gather(s, func(c *catalog.Catalog) []mcpvisor.ResourceTemplate { return c.Templates })
}

// Prompts lists the prompts of all ready servers.
func (s *Snapshot) Prompts() []mcpvisor.Prompt {
	return gather(s, func(c *catalog.Catalog) []mcpvisor.Prompt { return c.Prompts })
}

func gather[T any](s *Snapshot, of func(*catalog.Catalog) []T) []T {
	n := 0
	for c := range s.Catalogs() {
		n += len(of(c))
	}
	list := make([]T, 0, n)
	for c := range s.Catalogs() {
		list = append(list, of(c)...)
	}
	return list
}

// Alias finds a listed tool by its alias.
func (s *Snapshot) Alias(alias string) (mcpvisor.Tool, bool) {
	if server, name, ok := s.SplitAlias(alias); ok {
		return s.Server(server).Listed().Tool(name)
	}
	return mcpvisor.Tool{}, false
}

// SplitAlias splits an alias into a registered server and the server's own name of the
// tool. It also works while the server is down. An alias that two tools share belongs to
// neither.
func (s *Snapshot) SplitAlias(alias string) (server, name string, ok bool) {
	if len(alias) > mcpvisor.MaxAliasBytes {
		return "", "", false
	}
	if server, name, plain := mcpvisor.SplitAlias(alias); plain {
		return server, name, s.Server(server) != nil
	}
	if t, ok := s.aliases.Load(alias); ok {
		t := t.(mcpvisor.Tool)
		return t.Server, t.OriginalName, true
	}
	var found mcpvisor.Tool
	owners := 0
	for v := range s.all() {
		if t, ok := v.knownCatalog().ToolByAlias(alias); ok {
			found = t
			owners++
		}
	}
	if owners != 1 {
		return "", "", false
	}
	s.aliases.Store(alias, found)
	return found.Server, found.OriginalName, true
}

// Closed reports whether Close was called.
func (s *Snapshot) Closed() bool { return s.closed }

// Changed is closed when this snapshot has been replaced.
func (s *Snapshot) Changed() <-chan struct{} { return s.next }
