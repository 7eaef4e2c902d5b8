package gateway

import (
	"context"
	"sync"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/internal/listing"
)

// watchedKinds are the events that a hub follows, in addition to EventMissed.
var watchedKinds = []mcpvisor.EventKind{mcpvisor.EventReady, mcpvisor.EventDown, mcpvisor.EventChanged, mcpvisor.EventParked,
	mcpvisor.EventEvicted, mcpvisor.EventAuthRequired, mcpvisor.EventStopped, mcpvisor.EventStartFailed, mcpvisor.EventUnregistered,
	mcpvisor.EventResourceUpdated, mcpvisor.EventLog}

// hub tells the notifiers of all sessions what happens to the client. It follows the events of the
// client while it has members. A list counts as changed when its bytes differ from those that the
// members were told about last.
type hub struct {
	gateway *gateway

	mu      sync.Mutex           // guards the fields below
	members map[*notifier]func() // with the function that is called when the client is closed
	told    *listing.Listing     // what the members were told about last; nil without members
	stop    context.CancelFunc   // ends follow; nil without members
}

// join adds a notifier once. closed is called, from another goroutine, when the client is closed.
// It reports false if the notifier is a member already.
func (h *hub) join(n *notifier, closed func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, twice := h.members[n]; twice {
		return false
	}
	h.members[n] = closed
	if h.stop == nil {
		ctx, cancel := context.WithCancel(context.Background())
		h.stop = cancel
		// The events are watched before the lists are read, so that no change is missed.
		events := h.gateway.client.Watch(ctx, watchedKinds...)
		h.gateway.opts.settings.watch(h)
		h.told = h.gateway.catalog.Get()
		go h.follow(ctx, events)
	}
	return true
}

// leave removes a notifier.
func (h *hub) leave(n *notifier) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if delete(h.members, n); len(h.members) == 0 && h.stop != nil {
		h.gateway.opts.settings.ignore(h)
		h.stop()
		h.stop, h.told = nil, nil
	}
}

// follow reports the events of the client, until it is closed or ctx ends.
func (h *hub) follow(ctx context.Context, events <-chan mcpvisor.Event) {
	for e := range events {
		h.report(e)
	}
	if ctx.Err() != nil {
		return
	}
	h.mu.Lock()
	var closed []func()
	for _, f := range h.members {
		closed = append(closed, f)
	}
	h.mu.Unlock()
	for _, f := range closed {
		f()
	}
}

// report tells the members about an event.
func (h *hub) report(e mcpvisor.Event) {
	g := h.gateway
	copied := g.isCopied(e.Server)
	switch e.Kind {
	case mcpvisor.EventUnregistered:
		g.subscriptions.Forget(e.Server, e.Gen)
		h.reportLists()
	case mcpvisor.EventReady:
		h.reportLists()
		if !copied { // copies report their own
			h.renew(e.Server, e.Gen)
		}
		g.opts.settings.tell() // it may speak other versions than before, so that subscriptions move
	case mcpvisor.EventDown, mcpvisor.EventChanged, mcpvisor.EventParked, mcpvisor.EventEvicted, mcpvisor.EventAuthRequired,
		mcpvisor.EventStopped, mcpvisor.EventStartFailed: // it may have been at rest, and listed
		h.reportLists()
	case mcpvisor.EventResourceUpdated:
		if !copied && g.view.OffersUpdate(e.Server, e.URI) {
			h.each(func(n *notifier) { n.ReportUpdate(e.Server, e.URI, heardFrom(g.subscriptions)) })
		}
	case mcpvisor.EventLog:
		// Its call is not known: with tokens, it may be that of another principal.
		if !copied && !g.opts.settings.tokens.Load() && g.view.Rules().OffersServer(e.Server) {
			h.each(func(n *notifier) { n.ReportLog(*e.Log) })
		}
	case mcpvisor.EventMissed:
		h.reportLists()
		h.reportUpdates("")
		h.renewAll()
	case mcpvisor.EventRegistered, mcpvisor.EventConnecting, mcpvisor.EventRetry, mcpvisor.EventStable, mcpvisor.EventStandby, mcpvisor.EventStandbyLost, mcpvisor.EventTaskRecovered, mcpvisor.EventTaskLost,
		mcpvisor.EventAsleep, mcpvisor.EventWaiting, mcpvisor.EventGroupFailed: // not watched: they change no list
	}
}

// settingsChanged implements settingsWatcher.
func (h *hub) settingsChanged() {
	h.reportLists()
	h.each((*notifier).Look) // servers may have copies now, which ask without a call
}

// each calls f for each member. f does not wait.
func (h *hub) each(f func(*notifier)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n := range h.members {
		f(n)
	}
}

// reportLists tells the members which lists have changed since the last report.
func (h *hub) reportLists() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.told == nil {
		return
	}
	now := h.gateway.catalog.Get()
	changed := h.told.Changes(now)
	h.told = now
	if changed == 0 {
		return
	}
	for n := range h.members {
		n.ReportLists(changed)
	}
}

// renew subscribes again at a server that was replaced, and then reports all subscriptions to it as
// updated: it is not known what changed while it was down.
func (h *hub) renew(server string, gen uint64) {
	done := h.gateway.subscriptions.Renew(server, gen)
	select {
	case <-done:
		h.reportUpdates(server)
	default:
		go func() {
			<-done
			h.reportUpdates(server)
		}()
	}
}

// reportUpdates reports all subscriptions to a server as updated; with an empty server, those to all
// servers.
func (h *hub) reportUpdates(server string) {
	h.each(func(n *notifier) { n.ReportUpdates(server, h.gateway.view.OffersUpdate) })
}

// renewAll is renew for all servers that are ready, after events were missed. Each of the other servers
// sends an event when it becomes ready.
func (h *hub) renewAll() {
	for _, s := range h.gateway.client.Status() {
		if s.Session != nil {
			h.renew(s.Name, s.Gen)
		}
	}
}
