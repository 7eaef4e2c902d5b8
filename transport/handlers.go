package transport

import (
	"context"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Roots is the list of roots that servers may request (MCP, client, roots). The host may
// replace it while servers run. Safe for concurrent use.
type Roots struct {
	mu          sync.Mutex           // guards all fields
	list        []*mcp.Root          // replaced and never changed
	revision    uint64               // counts the calls of Set
	subscribers map[*func()]struct{} // the functions passed to Follow
}

// NewRoots makes a list with a copy of roots.
func NewRoots(roots []*mcp.Root) *Roots {
	return &Roots{list: slices.Clone(roots), subscribers: make(map[*func()]struct{})}
}

// Set replaces the list with a copy of roots and notifies the sessions that follow it. It
// does not block.
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

// Current returns the list and its revision. The list must not be changed.
func (r *Roots) Current() ([]*mcp.Root, uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list, r.revision
}

// Followers returns how many sessions follow the list.
func (r *Roots) Followers() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.subscribers)
}

// Follow calls changed after each change of the list until unfollow is called. If the
// list has changed since the revision since, Follow calls it at once. changed must not
// block.
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

// Handlers are the functions of the host that answer requests of servers. If a handler is
// nil, its capability is not declared and its requests are rejected. All servers share the
// handlers, and many goroutines call them; server is the name of the requesting server.
//
// The context of a handler ends when the server cancels the request, when the call that the
// request is known to belong to fails, and when the session ends. No request waits for a
// handler that ignores this.
type Handlers struct {
	// Sample answers sampling/createMessage. Requests with tools come only with
	// SampleTools.
	Sample func(ctx context.Context, server string, p *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error)
	// SampleTools declares that Sample handles tools.
	SampleTools bool
	// ElicitForm answers elicitation/create with a form, ElicitURL with a URL.
	ElicitForm func(ctx context.Context, server string, p *mcp.ElicitParams) (*mcp.ElicitResult, error)
	ElicitURL  func(ctx context.Context, server string, p *mcp.ElicitParams) (*mcp.ElicitResult, error)
	// Elicited gets the ids of notifications/elicitation/complete.
	Elicited func(ctx context.Context, server, elicitationID string)
	// Roots answers roots/list. Legacy servers are notified of its changes.
	Roots *Roots
}
