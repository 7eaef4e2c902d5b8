package placement

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// View holds what a node knows of the fleet: the nodes with a living lease, the names, and their
// places. The zero value is not usable; see [NewView]. It is not safe for concurrent use. Many
// planners may share one view if they use it in turn; a simulation of a large fleet does.
type View struct {
	policy   Policy
	lives    map[string]*life
	newest   map[string]*life // by the id of the node
	names    map[string]*name
	unplaced map[string]*name
	// owned are the names whose place names a life and is not released, by life, living or not.
	owned map[string]map[string]*name

	// moves are names that an operator wants on a node, by its id.
	moves map[string]string

	// generation changes with everything that candidates depend on, except the names themselves:
	// the nodes, and which of them are full. Candidates of another generation are old.
	generation uint64
	// version changes with everything.
	version uint64
	// specs counts the names that have a specification: weights share them out.
	specs      int
	weight     float64       // of all nodes that take names
	nodesSince time.Duration // when the nodes last changed
	// sorted are the nodes that take names, by id; nil: to be made again.
	sorted []*life

	// news are the names that became unplaced, in order. The first was the dropped-th.
	news    []*name
	dropped int

	// changed are the names that Changed has not returned yet.
	changed []*name
}

// life is a life of a node with a living lease.
type life struct {
	Node
	revision int64
	hash     uint64
	load     int  // how many names with a specification it owns
	full     bool // load has reached the bound
	spent    bool // load has reached the capacity
}

// name is a server of the fleet, or one that was.
type name struct {
	name  string
	hash  uint64
	spec  *Spec // nil: removed
	place Place
	// revision of the place record; 0 without a record.
	revision int64
	unplaced bool
	since    time.Duration // when it became unplaced

	candidates []*life // the first, of the generation ranked
	ranked     uint64
	changed    bool // it is in View.changed
}

// NewView makes an empty view.
func NewView(p Policy) *View {
	return &View{
		policy: p.withDefaults(), lives: map[string]*life{}, newest: map[string]*life{},
		names: map[string]*name{}, unplaced: map[string]*name{}, owned: map[string]map[string]*name{}, moves: map[string]string{}, generation: 1,
	}
}

// SetNode says that the lease of a node lives. Revision orders the lives of one node: the newest
// takes names.
func (v *View) SetNode(now time.Duration, n Node, revision int64) {
	l := v.lives[n.Life]
	if l == nil {
		l = &life{hash: hashOf(n.ID)}
		for _, owned := range v.owned[n.Life] {
			l.count(owned, 1)
		}
		v.lives[n.Life] = l
	}
	l.Node, l.revision = n, revision
	if newest := v.newest[n.ID]; newest == nil || newest.revision <= revision {
		v.newest[n.ID] = l
	}
	v.nodesChanged(now)
	for _, owned := range v.owned[n.Life] {
		v.refresh(now, owned)
	}
}

// RemoveNode says that the lease with this life has ended.
func (v *View) RemoveNode(now time.Duration, lifeID string) {
	l := v.lives[lifeID]
	if l == nil {
		return
	}
	delete(v.lives, lifeID)
	if v.newest[l.ID] == l {
		delete(v.newest, l.ID)
		for _, other := range v.lives {
			if newest := v.newest[l.ID]; other.ID == l.ID && (newest == nil || newest.revision < other.revision) {
				v.newest[l.ID] = other
			}
		}
	}
	v.nodesChanged(now)
	for _, owned := range sortedNames(v.owned[lifeID]) {
		v.refresh(now, owned)
	}
}

// SetSpec says that a server belongs to the fleet.
func (v *View) SetSpec(now time.Duration, server string, s Spec) {
	n := v.name(server)
	if n.spec != nil && n.spec.Equal(s) {
		return
	}
	if n.spec == nil {
		v.countSpec(n, 1)
	}
	n.spec, n.ranked = &s, 0
	v.version++
	v.refresh(now, n)
}

// RemoveSpec says that a server no longer belongs to the fleet.
func (v *View) RemoveSpec(now time.Duration, server string) {
	n := v.names[server]
	if n == nil || n.spec == nil {
		return
	}
	n.spec = nil
	v.countSpec(n, -1)
	v.version++
	v.refresh(now, n)
}

// SetPlace says who runs a name, by the record of a revision. An older record than the known one
// has no effect, so that what a commit returns may be told before the watch does.
func (v *View) SetPlace(now time.Duration, server string, p Place, revision int64) {
	n := v.name(server)
	if revision <= n.revision {
		return
	}
	if n.owned() && n.place.Life != p.Life || p.Released {
		v.own(n, false)
	}
	claimed := !p.Released && (!n.owned() || n.place.Life != p.Life)
	n.place, n.revision = p, revision
	if claimed {
		v.own(n, true)
	}
	v.version++
	v.refresh(now, n)
}

// SetMove notes the node that a name is to move to; "": the move has ended.
func (v *View) SetMove(server, nodeID string) {
	if v.moves[server] == nodeID {
		return
	}
	if v.moves[server] = nodeID; nodeID == "" {
		delete(v.moves, server)
	}
	if n := v.names[server]; n != nil {
		n.ranked = 0
		if n.unplaced {
			v.generation++ // planners consider it again
		}
	}
	v.version++
}

// Move returns the node that a name is to move to; "" without a move.
func (v *View) Move(server string) string { return v.moves[server] }

// Moves returns the names for which [View.Move] is a node, sorted.
func (v *View) Moves() []string { return slices.Sorted(maps.Keys(v.moves)) }

// Place returns who runs a name, and the revision of the record; 0 without a record.
func (v *View) Place(server string) (p Place, revision int64) {
	if n := v.names[server]; n != nil {
		return n.place, n.revision
	}
	return Place{}, 0
}

// Spec returns the specification of a name; ok is false if it has none.
func (v *View) Spec(server string) (s Spec, ok bool) {
	if n := v.names[server]; n != nil && n.spec != nil {
		return *n.spec, true
	}
	return Spec{}, false
}

// Alive reports whether the lease with this life lives.
func (v *View) Alive(lifeID string) bool { return v.lives[lifeID] != nil }

// Draining reports whether a life is known to take no name.
func (v *View) Draining(lifeID string) bool { l := v.lives[lifeID]; return l != nil && l.Draining }

// Nodes returns the nodes with a living lease, sorted by id; of each its newest life.
func (v *View) Nodes() []Node {
	nodes := make([]Node, 0, len(v.newest))
	for _, l := range v.newest {
		nodes = append(nodes, l.Node)
	}
	slices.SortFunc(nodes, func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	return nodes
}

// Lives returns all living lives, sorted by node; of nodes with two of them both, the newest last.
func (v *View) Lives() []Node {
	lives := slices.SortedFunc(maps.Values(v.lives), func(a, b *life) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.revision, b.revision))
	})
	nodes := make([]Node, len(lives))
	for i, l := range lives {
		nodes[i] = l.Node
	}
	return nodes
}

// Owned returns the names whose places name a life and are not released, sorted.
func (v *View) Owned(lifeID string) (names []string) {
	for _, n := range sortedNames(v.owned[lifeID]) {
		names = append(names, n.name)
	}
	return names
}

// Names returns all names with a specification, or with a place, sorted.
func (v *View) Names() (names []string) {
	for _, n := range sortedNames(v.names) {
		names = append(names, n.name)
	}
	return names
}

// Unplaced is how many names no living node runs.
func (v *View) Unplaced() int { return len(v.unplaced) }

// Changed returns the names of which the specification, the place or the life of the owner may have
// changed since it was called before, sorted.
func (v *View) Changed() []string {
	if len(v.changed) == 0 {
		return nil
	}
	names := make([]string, len(v.changed))
	for i, n := range v.changed {
		names[i], n.changed = n.name, false
	}
	v.changed = v.changed[:0]
	slices.Sort(names)
	return names
}

// Life returns the node of a life whose lease lives.
func (v *View) Life(lifeID string) (n Node, alive bool) {
	if l := v.lives[lifeID]; l != nil {
		return l.Node, true
	}
	return Node{}, false
}

// Version changes with every change of the view.
func (v *View) Version() uint64 { return v.version }

func (v *View) name(server string) *name {
	n := v.names[server]
	if n == nil {
		n = &name{name: server, hash: hashOf(server)}
		v.names[server] = n
	}
	return n
}

// refresh finds out whether a name is unplaced. It is called after every change of a name, or of the
// life that owns it.
func (v *View) refresh(now time.Duration, n *name) {
	if !n.changed {
		n.changed = true
		v.changed = append(v.changed, n)
	}
	unplaced := n.spec != nil && (n.revision == 0 || n.place.Released || v.lives[n.place.Life] == nil)
	switch {
	case unplaced && !n.unplaced:
		n.since = now
		v.unplaced[n.name] = n
		v.news = append(v.news, n)
		if keep := max(newsKept, len(v.unplaced)); len(v.news) > 2*keep {
			drop := len(v.news) - keep
			v.news = slices.Clone(v.news[drop:])
			v.dropped += drop
		}
	case !unplaced && n.unplaced:
		delete(v.unplaced, n.name)
		n.candidates, n.ranked = nil, 0
	}
	n.unplaced = unplaced
}

// newsKept are at least this many names that a planner finds in news, however late it comes.
const newsKept = 64

// owned reports whether a place names a life that has not released it.
func (n *name) owned() bool { return n.revision != 0 && !n.place.Released }

// own counts a name for the life of its place, or no longer.
func (v *View) own(n *name, owns bool) {
	owned, by := v.owned[n.place.Life], 1
	switch {
	case owns && owned == nil:
		v.owned[n.place.Life] = map[string]*name{n.name: n}
	case owns:
		owned[n.name] = n
	case owned[n.name] == nil:
		return
	default:
		if delete(owned, n.name); len(owned) == 0 {
			delete(v.owned, n.place.Life)
		}
		by = -1
	}
	if l := v.lives[n.place.Life]; l != nil {
		l.count(n, by)
		v.checkFull(l)
	}
}

func (l *life) count(n *name, by int) {
	if n.spec != nil {
		l.load += by
	}
}

// countSpec follows a specification that came (1) or went (-1).
func (v *View) countSpec(n *name, by int) {
	v.specs += by
	if l := v.lives[n.place.Life]; l != nil && n.owned() {
		l.load += by
	}
	for _, l := range v.lives { // the bound of every node has changed
		v.checkFull(l)
	}
}

func (v *View) nodesChanged(now time.Duration) {
	v.nodesSince = now
	v.generation++
	v.version++
	v.sorted, v.weight = nil, 0
	for _, l := range v.takers() {
		v.weight += l.weight()
	}
	for _, l := range v.lives {
		l.full, l.spent = v.limits(l)
	}
}

// takers are the nodes that take names, sorted by id.
func (v *View) takers() []*life {
	if v.sorted == nil {
		v.sorted = []*life{}
		for _, l := range v.newest {
			if !l.Draining {
				v.sorted = append(v.sorted, l)
			}
		}
		slices.SortFunc(v.sorted, func(a, b *life) int { return cmp.Compare(a.ID, b.ID) })
	}
	return v.sorted
}

func (v *View) limits(l *life) (full, spent bool) {
	return l.load >= v.bound(l), l.Capacity > 0 && l.load >= l.Capacity
}

func (v *View) checkFull(l *life) {
	if full, spent := v.limits(l); full != l.full || spent != l.spent {
		l.full, l.spent = full, spent
		v.generation++
	}
}

func sortedNames(names map[string]*name) []*name {
	sorted := make([]*name, 0, len(names))
	for _, n := range names {
		sorted = append(sorted, n)
	}
	slices.SortFunc(sorted, func(a, b *name) int { return cmp.Compare(a.name, b.name) })
	return sorted
}
