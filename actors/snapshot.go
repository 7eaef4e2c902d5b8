package actors

import (
	"iter"
	"maps"
	"sort"
	"sync"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
)

// Snapshot is the registries at one moment. It is immutable, shared by all readers, and
// replaced as a whole by the manager. A change of one server copies one pointer for each
// other server, and nothing of their catalogs.
type Snapshot struct {
	servers map[string]*View
	names   []string
	closed  bool
	next    chan struct{} // closed when this snapshot is replaced

	// aliases caches the looked-up aliases that end with a hash: alias → mcpvisor.Tool.
	// It is the only part that changes.
	aliases sync.Map
}

func newSnapshot(servers map[string]*View, closed bool) *Snapshot {
	s := &Snapshot{servers: servers, closed: closed, next: make(chan struct{})}
	s.names = make([]string, 0, len(servers))
	for name := range servers {
		s.names = append(s.names, name)
	}
	sort.Strings(s.names)
	return s
}

// with returns a snapshot in which one server's view is replaced, or removed
// if v is nil. Views are shared, not copied.
func (s *Snapshot) with(name string, v *View) *Snapshot {
	return s.withAll(map[string]*View{name: v})
}

// withAll is with for some servers at once.
func (s *Snapshot) withAll(views map[string]*View) *Snapshot {
	servers := maps.Clone(s.servers)
	if servers == nil {
		servers = make(map[string]*View, len(views))
	}
	sameNames := true
	for name, v := range views {
		_, known := servers[name]
		sameNames = sameNames && known == (v != nil)
		if v == nil {
			delete(servers, name)
		} else {
			servers[name] = v
		}
	}
	if sameNames {
		return &Snapshot{servers: servers, names: s.names, closed: s.closed, next: make(chan struct{})}
	}
	return newSnapshot(servers, s.closed)
}

// Names returns the registered servers in order. Do not change it.
func (s *Snapshot) Names() []string { return s.names }

// Server returns the view of one server, or nil.
func (s *Snapshot) Server(name string) *View { return s.servers[name] }

// Catalogs yields what the ready servers offer, in the order of their names. It copies
// nothing, and leaves out servers whose session has died.
func (s *Snapshot) Catalogs() iter.Seq[*catalog.Catalog] {
	return func(yield func(*catalog.Catalog) bool) {
		for _, name := range s.names {
			if c := s.servers[name].Listed(); c != nil && !yield(c) {
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
		return s.servers[server].Listed().Tool(name)
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
		return server, name, s.servers[server] != nil
	}
	if t, ok := s.aliases.Load(alias); ok {
		t := t.(mcpvisor.Tool)
		return t.Server, t.OriginalName, true
	}
	var found mcpvisor.Tool
	owners := 0
	for _, v := range s.servers {
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
