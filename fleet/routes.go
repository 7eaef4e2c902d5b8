package fleet

import (
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/fleet/placement"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// remote is a server on another node.
type remote struct {
	node    string
	address string
	epoch   uint64 // of the placement
}

// route is where the server of one name is, as this node knows. At most one of local and remote is
// set, unless the server here is being handed over.
type route struct {
	local  *local
	remote *remote
	// session is the last one to the server on another node; nil: there was none.
	session *remoteSession
	// taken is the way of the last session that was made; over reports whether that has ended, nil while
	// it is being made. asked: a restart was asked that has made no session yet; that session takes the way
	// that the route is then.
	taken way
	over  func() bool
	asked bool
	// changed is closed, and replaced, when the route or the record of its catalog changes.
	changed chan struct{}
	record  catalogRecord
}

// way is where a session goes: to a server here, to one on another node, or, if it is zero, nowhere.
type way struct {
	local  *local
	remote remote
}

// wayLocked returns the way of sessions that begin now.
func (at *route) wayLocked() way {
	switch {
	case at.local != nil && !at.local.leaving.Load():
		return way{local: at.local}
	case at.local == nil && at.remote != nil:
		return way{remote: *at.remote}
	}
	return way{}
}

// cause is that of the end of a session when the server goes this way.
func (w way) cause() *supervisor.Cause {
	text := "no node runs the server at present"
	switch {
	case w.local != nil:
		text = "the server runs on this node now"
	case w.remote != remote{}:
		text = "the server runs on node " + w.remote.node + " now"
	}
	return &supervisor.Cause{Kind: supervisor.CauseMoved, Message: text}
}

// routes are the routes of all names. Safe for concurrent use.
type routes struct {
	self string // the id of this node

	mu     sync.RWMutex // guards all fields of routes and of each route
	byName map[string]*route
}

func newRoutes(self string) *routes { return &routes{self: self, byName: map[string]*route{}} }

func (r *routes) getLocked(name string) *route {
	at := r.byName[name]
	if at == nil {
		at = &route{changed: make(chan struct{})}
		r.byName[name] = at
	}
	return at
}

// changedLocked wakes those who wait for a change of the route.
func (at *route) changedLocked() {
	close(at.changed)
	at.changed = make(chan struct{})
}

// current returns where a server is on another node, nil if it is not, and a channel that is closed when
// that or the record of its catalog changes.
func (r *routes) current(name string) (to *remote, record catalogRecord, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.getLocked(name)
	return at.remote, at.record, at.changed
}

// opened notes a session to the server on another node.
func (r *routes) opened(name string, s *remoteSession) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.getLocked(name).session = s
}

// closed forgets a session that has ended.
func (r *routes) closed(name string, s *remoteSession) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := r.byName[name]; at != nil && at.session == s {
		at.session = nil
	}
}

// take returns the way of a new session.
func (r *routes) take(name string) way {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.getLocked(name)
	at.taken, at.over, at.asked = at.wayLocked(), nil, false
	return at.taken
}

// made notes the session that has taken a way; over reports whether it has ended.
func (r *routes) made(name string, over func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.getLocked(name).over = over
}

// ask reports whether a restart must be asked for so that a session goes the way that the route is now,
// and notes that it is.
func (r *routes) ask(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.byName[name]
	if at == nil {
		return true
	}
	if at.asked || at.taken == at.wayLocked() && (at.over == nil || !at.over()) {
		return false
	}
	at.asked = true
	return true
}

// wayOf returns the way to a server now.
func (r *routes) wayOf(name string) way {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if at := r.byName[name]; at != nil {
		return at.wayLocked()
	}
	return way{}
}

// unask takes ask back: there was no restart.
func (r *routes) unask(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := r.byName[name]; at != nil {
		at.asked = false
	}
}

// forget drops the route of a server that was removed, when nothing of it is left here.
func (r *routes) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := r.byName[name]; at != nil && at.local == nil {
		at.changedLocked()
		delete(r.byName, name)
	}
}

// outdated returns the last session to the server, if it goes where the server no longer is; nil if
// without such a session.
func (r *routes) outdated(name string) *remoteSession {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if at := r.byName[name]; at != nil && at.session != nil && (at.remote == nil || *at.remote != at.session.to) {
		return at.session
	}
	return nil
}

// start notes that the server runs here from now on.
func (r *routes) start(name string, l *local) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.getLocked(name)
	at.local, at.remote = l, nil
	at.changedLocked()
}

// stopped notes that the server no longer runs here.
func (r *routes) stopped(name string, l *local) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := r.getLocked(name); at.local == l {
		at.local = nil
		at.changedLocked()
	}
}

// localOf returns the server of a name if it runs here; nil if not.
func (r *routes) localOf(name string) *local {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if at := r.byName[name]; at != nil {
		return at.local
	}
	return nil
}

// locals returns the servers that run here.
func (r *routes) locals() (all []*local) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, at := range r.byName {
		if at.local != nil {
			all = append(all, at.local)
		}
	}
	return all
}

// place notes who runs a server, nil if no living node does, and reports whether that changes the
// way to it.
func (r *routes) place(name string, p placement.Place, owner *placement.Node) (changed bool) {
	var to *remote
	if owner != nil && !p.Released && owner.ID != r.self && owner.Address != "" {
		to = &remote{node: owner.ID, address: owner.Address, epoch: p.Epoch}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.getLocked(name)
	if at.remote == to || at.remote != nil && to != nil && *at.remote == *to {
		return false
	}
	at.remote = to
	at.changedLocked()
	return at.local == nil
}

// setRecord notes which catalog a server has.
func (r *routes) setRecord(name string, record catalogRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byName[name] == nil && record == (catalogRecord{}) { // of a server that was removed
		return
	}
	if at := r.getLocked(name); at.record != record {
		at.record = record
		at.changedLocked()
	}
}

// pauseBeforeRetry is the RetryAfter of a call that meets a server on its way to another node.
const pauseBeforeRetry = 100 * time.Millisecond
