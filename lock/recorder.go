package lock

import (
	"sync"

	"github.com/mcpvisor/mcpvisor"
)

// Recorder is a [mcpvisor.CatalogGuard] that withholds nothing, and notes what servers offer. The zero value is ready to be
// used; safe for concurrent use.
type Recorder struct {
	mu      sync.Mutex
	servers map[string]*Server // guarded by mu
}

// Check implements [mcpvisor.CatalogGuard].
func (r *Recorder) Check(server string, offer mcpvisor.Offer) []mcpvisor.Finding {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.servers == nil {
		r.servers = map[string]*Server{}
	}
	if r.servers[server] == nil {
		r.servers[server] = &Server{}
	}
	r.servers[server].add(offer)
	return nil
}

// Server returns what a server has offered last; false if it has offered nothing yet.
func (r *Recorder) Server(name string) (*Server, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, known := r.servers[name]
	if !known {
		return nil, false
	}
	return s.clone(), true
}
