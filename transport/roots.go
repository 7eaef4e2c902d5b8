package transport

import (
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Roots is a list that servers may ask for and that changes while they run.
// Safe for concurrent use.
type Roots struct {
	mu          sync.Mutex
	list        []*mcp.Root // never changed, only replaced
	revision    uint64
	subscribers map[*func()]struct{}
}

// NewRoots makes a list.
func NewRoots(roots []*mcp.Root) *Roots {
	return &Roots{list: slices.Clone(roots), subscribers: make(map[*func()]struct{})}
}

// Set replaces the list and notifies the sessions that follow it. It does not block.
func (r *Roots) Set(roots []*mcp.Root) {
	r.mu.Lock()
	r.list = slices.Clone(roots)
	r.revision++
	notify := make([]func(), 0, len(r.subscribers))
	for f := range r.subscribers {
		notify = append(notify, *f)
	}
	r.mu.Unlock()
	for _, f := range notify {
		f()
	}
}

// Current is the list and its revision.
func (r *Roots) Current() ([]*mcp.Root, uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list, r.revision
}

// Followers is how many sessions follow the list.
func (r *Roots) Followers() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.subscribers)
}

// Follow has changed called after each change, from one that is newer than
// since on, until unfollow is called. changed must not block.
func (r *Roots) Follow(since uint64, changed func()) (unfollow func()) {
	r.mu.Lock()
	r.subscribers[&changed] = struct{}{}
	missed := r.revision != since
	r.mu.Unlock()
	if missed {
		changed()
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.subscribers, &changed)
	}
}
