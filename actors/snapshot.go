package actors

import (
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/internal/lifecycle"
	"github.com/mcpvisor/mcpvisor/internal/toolname"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Snapshot is the registries at one moment. It is immutable, shared by all readers, and
// replaced as a whole by the manager. A change or a removal of one server copies one
// pointer for each other server, and nothing of their catalogs. The names are copied when servers come,
// and when more than half of them have gone.
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
	groups  []mcpvisor.GroupStatus

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

// withAll returns a snapshot in which views of servers are replaced, or removed if they are nil.
// Views are shared, not copied.
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
	if len(changed) == 0 { // a group has changed
		return &Snapshot{index: s.index, order: s.order, views: s.views, removed: s.removed, names: s.names, next: make(chan struct{})}
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
	if len(alias) > toolname.MaxAliasBytes {
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

// Groups describes the groups in their order. Do not change it.
func (s *Snapshot) Groups() []mcpvisor.GroupStatus { return s.groups }

// Closed reports whether Close was called.
func (s *Snapshot) Closed() bool { return s.closed }

// Changed is closed when this snapshot has been replaced.
func (s *Snapshot) Changed() <-chan struct{} { return s.next }

// View is one registration at one moment, as the manager published it. It is immutable,
// except for what it asks its sessions: [View.Listed] and [View.Status] leave out a session
// that has died meanwhile.
type View struct {
	Name string
	Gen  uint64 // the number of the registration; each Register has its own
	Spec *mcpvisor.ServerSpec

	// As lifecycle.Lifecycle reports them.
	State supervisor.State
	Since time.Time // when State was entered
	// downSince is since when the server has not been ready; zero while it is, and before it was
	// ready for the first time.
	downSince time.Time
	Epoch     uint64 // the number of the incarnation
	Attempt   int
	Restarts  int
	RetryAt   time.Time         // zero unless a retry is planned
	Cause     *supervisor.Cause // why the last session ended; nil if none has

	Catalog   *catalog.Catalog // what the server offers; nil unless it is ready
	EverReady bool             // the server was ready at least once
	BothEras  bool             // SessionInfo.BothEras of the last session that was ready; false for one on another node
	History   []mcpvisor.Incarnation

	// last is what a server that is down offered, or the one that it replaces; nil while it
	// is ready.
	last *catalog.Catalog
	// rests: the server has gone to rest, or has not been wanted yet, and has neither been ready nor failed since. It is
	// listed with last, also while it wakes.
	rests   bool
	woken   *atomic.Bool    // it was told to wake; set if rests is
	waits   func() []string // of a server that waits: what it waits for now; nil of any other
	leaving bool            // the registration is being removed
	// replaced: the registration is being removed, and the next one of the name follows at
	// once.
	replaced bool
	current  *incarnation // the latest one, dead or alive; nil before the first
	standby  *incarnation // can take over; nil if there is no such standby
	ending   *incarnation // of the registration that this one has replaced, while its calls in flight end; usually nil
	// protocol is the version that current has negotiated; empty unless State is ready.
	// Each observed call reads it, and Info of the session takes a lock.
	protocol string
	// mayTakeOver: the policy lets the standby take over when the session ends.
	mayTakeOver bool
	stats       *registrationStats

	// What the supervising actor has counted: how often the server was ready, how long,
	// without the time since readySince, and stale messages. readySince is zero unless it
	// is ready.
	timesReady int64
	readyFor   time.Duration
	readySince time.Time
	stale      uint64
}

// knownCatalog is what the server offers, or offered while it was ready.
func (v *View) knownCatalog() *catalog.Catalog {
	if v.Catalog != nil {
		return v.Catalog
	}
	return v.last
}

// Listed is what the server offers now. It is nil if the server is not ready, or if its
// session has died and the manager has not handled the report yet. So a caller whose
// call failed with ErrCrashed never finds the tools listed.
func (v *View) Listed() *catalog.Catalog {
	if v.rests {
		return v.last
	}
	if v.Catalog == nil || v.sessionCause() != nil {
		return nil
	}
	return v.Catalog
}

// ListedOrLast is [View.Listed] or, while the server is down and may return without being
// asked to, what it offered last. down reports that c is the last catalog, not the
// current one.
func (v *View) ListedOrLast() (c *catalog.Catalog, down bool) {
	c, down = v.Known()
	if down && (v.leaving || !v.EverReady || !mayReturn(v.State)) {
		return nil, false
	}
	return c, down
}

// Known is [View.Listed] or, in any other state, what the server offered last; nil if it
// was never ready, or is being removed. down reports that c is the last catalog, not the current one.
func (v *View) Known() (c *catalog.Catalog, down bool) {
	if c := v.Listed(); c != nil {
		return c, false
	}
	if v.leaving && !v.replaced { // its calls in flight may take long to end
		return nil, false
	}
	c = v.knownCatalog()
	return c, c != nil
}

// Offer returns what the server offered in its last ready session, as the server sent it; nil if no session was ready.
func (v *View) Offer() (mcpvisor.SessionInfo, *catalog.Catalog) {
	c := v.knownCatalog()
	if c == nil || v.current == nil || !v.EverReady {
		return mcpvisor.SessionInfo{}, nil
	}
	info := v.current.session.Info()
	info.Instructions = c.Instructions
	return info, c
}

// Leaving reports whether the registration is being removed, perhaps to be replaced.
func (v *View) Leaving() bool { return v.leaving }

// sessionCause is why the session of a ready server has ended. It is nil while the
// session lives, when the standby takes its place, and when the server is about to rest: the tools stay listed then.
func (v *View) sessionCause() *supervisor.Cause {
	if v.State != supervisor.StateReady || v.current == nil {
		return nil
	}
	cause := v.current.session.Cause()
	if v.hasFinished(cause) || cause != nil && !cause.Permanent && v.mayTakeOver && v.standby.session.Cause() == nil {
		return nil
	}
	return cause
}

// atRest reports whether the server starts when it is wanted.
func (v *View) atRest() bool {
	return v.State == supervisor.StateAsleep || v.State == supervisor.StateResting
}

// Rests reports whether the server is at rest, is going to, or wakes: a call waits for it.
func (v *View) Rests() bool { return v.rests }

// FellAsleep reports whether a view of a ready server is older than the rest of the server.
func (v *View) FellAsleep() bool {
	return v.State == supervisor.StateReady && (v.current.rested.Load() || v.hasFinished(v.current.session.Cause()))
}

// hasFinished reports whether a transient server that was ready has done its work. cause is why its session has ended.
func (v *View) hasFinished(cause *supervisor.Cause) bool {
	return v.Spec.Transient && lifecycle.Finished(cause) && v.current.limiter.lostCalls() == 0
}

// waitsFor is what the server waits for now; nil if it does not wait.
func (v *View) waitsFor() []string {
	if v.waits == nil {
		return nil
	}
	return v.waits()
}

// mayReturn reports whether a server in that state is ready, or may become ready without a
// Restart.
func mayReturn(s supervisor.State) bool {
	switch s {
	case supervisor.StateClosing, supervisor.StateBackoff, supervisor.StateParked, supervisor.StateWaiting, supervisor.StateAsleep, supervisor.StateResting:
		return true
	default:
		return isOpen(s)
	}
}

// comes reports whether the server is ready, or may become ready by itself.
func (v *View) comes() bool { return v != nil && mayReturn(v.State) && !v.atRest() }

// isOpen reports whether a server in that state has a session that is open or opening.
func isOpen(s supervisor.State) bool {
	return s == supervisor.StateConnecting || s == supervisor.StateDiscovering || s == supervisor.StateReady
}

// Status is the view as users see it.
func (v *View) Status() mcpvisor.ServerStatus {
	if cause := v.sessionCause(); cause != nil {
		down := *v
		now := time.Now()
		down.State, down.Since, down.downSince, down.Cause, down.Catalog = supervisor.StateClosing, now, now, cause, nil
		v = &down
	}
	st := mcpvisor.ServerStatus{
		Name: v.Name, State: v.State, Since: v.Since, Gen: v.Gen, Registered: v.stats.registered, Epoch: v.Epoch,
		Transport: v.Spec.TransportKind(), Target: v.Spec.Target(), Policy: v.Spec.Policy.String(), Origin: v.Spec.Origin,
		WantsStandby: v.Spec.Standby, WaitsFor: v.waitsFor(),
		Attempt: v.Attempt, MaxAttempts: v.Spec.Policy.MaxAttempts, Restarts: v.Restarts,
		LastCause: v.Cause.Clone(), History: slices.Clone(v.History),
		Calls: v.stats.calls.counts(), Totals: v.totals(time.Now()),
	}
	for i := range st.History {
		st.History[i].Cause = st.History[i].Cause.Clone()
	}
	if v.State != supervisor.StateReady && !v.rests && v.State != supervisor.StateStopped {
		at := v.downSince
		if at.IsZero() {
			at = v.stats.registered
		}
		st.DownSince = &at
	}
	if !v.RetryAt.IsZero() {
		at := v.RetryAt
		st.RetryAt = &at
	}
	if st.Session = v.Session(); st.Session != nil && v.State != supervisor.StateReady {
		st.Session.Stderr = v.current.session.Stderr()
	}
	if st.Session != nil && st.Session.Instructions != "" { // a status is for people, and not for the model that they instruct
		text, _ := json.Marshal(st.Session.Instructions)
		_ = json.Unmarshal(v.Redact(text), &st.Session.Instructions)
	}
	if v.standby != nil && v.standby.session.Cause() == nil {
		info := v.standby.session.Info()
		info.Instructions = ""
		st.Standby = &info
	}
	c := v.Catalog
	if v.rests {
		c = v.last
	}
	if c != nil {
		st.Catalog = mcpvisor.CatalogInfo{Tools: len(c.Tools), Resources: len(c.Resources),
			Templates: len(c.Templates), Prompts: len(c.Prompts), Hidden: c.Hidden, Tokens: c.Tokens, Warnings: slices.Clone(c.Warnings)}
	}
	return st
}

// Session describes the session of the server; nil if it has none.
func (v *View) Session() *mcpvisor.SessionInfo {
	if v.current == nil || v.current.epoch != v.Epoch || !isOpen(v.State) {
		return nil
	}
	info := v.current.session.Info()
	if info.Instructions = ""; v.Catalog != nil { // what a guard has not seen is not told
		info.Instructions = v.Catalog.Instructions
	}
	return &info
}

// totals are the counts since the registration began.
func (v *View) totals(now time.Time) mcpvisor.Totals {
	t := v.stats.totals()
	t.Ready, t.Uptime, t.StaleMessages = v.timesReady, v.readyFor, v.stale
	if !v.readySince.IsZero() {
		t.Uptime += max(now.Sub(v.readySince), 0)
	}
	return t
}
