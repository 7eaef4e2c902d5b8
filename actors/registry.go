package actors

import (
	"sort"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// View is what everybody may know about one registration at one moment. It is
// immutable.
type View struct {
	Name      string
	Gen       uint64
	Spec      *messages.ServerSpec
	State     supervisor.State
	Since     time.Time
	Epoch     uint64
	Attempt   int
	Restarts  int
	RetryAt   time.Time
	Cause     *supervisor.Cause
	Catalog   *messages.Catalog // nil unless ready
	EverReady bool
	History   []messages.Incarnation

	current *incarnation // the latest one, dead or alive; nil before the first
	tally   *tally
}

// Snapshot is the registries at one moment: immutable, shared by all readers,
// replaced as a whole by the manager.
type Snapshot struct {
	servers map[string]*View
	names   []string
	closed  bool
	next    chan struct{} // closed when this snapshot is replaced

	once      sync.Once
	tools     []messages.Tool
	resources []messages.Resource
	templates []messages.ResourceTemplate
	prompts   []messages.Prompt
	aliases   map[string]messages.Tool
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
	servers := make(map[string]*View, len(s.servers)+1)
	for n, old := range s.servers {
		servers[n] = old
	}
	if v == nil {
		delete(servers, name)
	} else {
		servers[name] = v
	}
	return newSnapshot(servers, s.closed)
}

// Names returns the registered servers in order. Do not change it.
func (s *Snapshot) Names() []string { return s.names }

// Server returns the view of one server, or nil.
func (s *Snapshot) Server(name string) *View { return s.servers[name] }

// flatten joins the catalogs, once per snapshot and only if somebody asks.
func (s *Snapshot) flatten() {
	s.once.Do(func() {
		s.aliases = map[string]messages.Tool{}
		twice := map[string]bool{}
		for _, name := range s.names {
			c := s.servers[name].Catalog
			if c == nil {
				continue
			}
			s.tools = append(s.tools, c.Tools...)
			s.resources = append(s.resources, c.Resources...)
			s.templates = append(s.templates, c.Templates...)
			s.prompts = append(s.prompts, c.Prompts...)
			for _, t := range c.Tools {
				if _, taken := s.aliases[t.Alias]; taken {
					twice[t.Alias] = true
				}
				s.aliases[t.Alias] = t
			}
		}
		for alias := range twice { // ambiguous: fail closed
			delete(s.aliases, alias)
		}
	})
}

// Tools lists the tools of all ready servers by server, then by name. The
// slice is shared: copy it before handing it out.
func (s *Snapshot) Tools() []messages.Tool { s.flatten(); return s.tools }

// Resources lists the resources of all ready servers; shared.
func (s *Snapshot) Resources() []messages.Resource { s.flatten(); return s.resources }

// Templates lists the resource templates of all ready servers; shared.
func (s *Snapshot) Templates() []messages.ResourceTemplate { s.flatten(); return s.templates }

// Prompts lists the prompts of all ready servers; shared.
func (s *Snapshot) Prompts() []messages.Prompt { s.flatten(); return s.prompts }

// Alias resolves a tool's alias.
func (s *Snapshot) Alias(alias string) (messages.Tool, bool) {
	s.flatten()
	t, ok := s.aliases[alias]
	return t, ok
}

// Changed is closed when this snapshot has been replaced.
func (s *Snapshot) Changed() <-chan struct{} { return s.next }

// Status is the view as users see it.
func (v *View) Status() messages.ServerStatus {
	st := messages.ServerStatus{
		Name: v.Name, State: v.State, Since: v.Since, Gen: v.Gen, Epoch: v.Epoch,
		Transport: v.Spec.TransportKind(), Target: v.Spec.Target(), Policy: v.Spec.Retry.String(),
		Attempt: v.Attempt, MaxAttempts: v.Spec.Retry.MaxAttempts, Restarts: v.Restarts,
		LastCause: v.Cause, History: append([]messages.Incarnation(nil), v.History...),
		Calls: messages.CallCounts{InFlight: v.tally.inFlight.Load(), Total: v.tally.total.Load(), Failed: v.tally.failed.Load()},
	}
	if !v.RetryAt.IsZero() {
		at := v.RetryAt
		st.RetryAt = &at
	}
	if v.current != nil && (v.State == supervisor.Ready || v.State == supervisor.Discovering) {
		info := v.current.session.Info()
		st.Session = &info
	}
	if c := v.Catalog; c != nil {
		st.Catalog = messages.CatalogInfo{Tools: len(c.Tools), Resources: len(c.Resources),
			Templates: len(c.Templates), Prompts: len(c.Prompts), Warnings: append([]string(nil), c.Warnings...)}
	}
	return st
}
