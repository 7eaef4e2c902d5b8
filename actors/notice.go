package actors

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/transport"
)

// onNotice handles a notification of the server. The goroutine that reads from the
// server calls it, so it does not block.
func (p *port) onNotice(n transport.Notice) {
	switch n.Kind {
	case transport.ListChanged:
		p.refresher.markChanged(n.Lists)
	case transport.ResourceUpdated:
		p.ref.publishUpdated([]string{n.URI})
	case transport.LogMessage:
		p.ref.publish(mcpvisor.Event{Kind: mcpvisor.EventLog, Log: n.Log})
	case transport.Acknowledged:
		if !p.ref.inc.tasks.onAck(n) {
			p.reconciler.subscriber.OnAck(n)
		}
	case transport.TaskChanged:
		p.ref.inc.tasks.onChanged(n.Task)
	case transport.Gap: // notifications were lost
		p.refresher.markChanged(catalog.AllLists)
		p.missed.add(p.reconciler.subscriber.Watched())
	}
}

// missedPerSecond bounds the resources that count as updated because notifications may have
// been missed. A server can make gaps as often as it likes, for example by ending a stream.
const missedPerSecond = 200

// missedUpdates publishes the resources whose updates may have been missed. After the first
// time they are collected, each once, and published at the rate of missedPerSecond. Any
// goroutine may call its methods.
type missedUpdates struct {
	publish func(uris []string)

	mu      sync.Mutex      // guards the fields below
	pending map[string]bool // what the timer publishes
	timer   *time.Timer     // nil: none is armed
	next    time.Time       // nothing is published before
	stopped bool
}

// add publishes that the resources may have been updated, now or later.
func (m *missedUpdates) add(uris []string) {
	if len(uris) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return
	}
	if m.pending == nil {
		m.pending = map[string]bool{}
	}
	for _, uri := range uris {
		m.pending[uri] = true
	}
	if wait := time.Until(m.next); m.timer == nil && wait > 0 {
		m.timer = time.AfterFunc(wait, m.onTimer)
	} else if m.timer == nil {
		m.publishLocked()
	}
}

func (m *missedUpdates) onTimer() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.timer = nil
	m.publishLocked()
}

// publishLocked publishes what is pending. The caller holds the mutex, so that nothing is
// published after stop.
func (m *missedUpdates) publishLocked() {
	if m.stopped {
		return
	}
	uris := slices.Sorted(maps.Keys(m.pending))
	m.pending, m.next = nil, time.Now().Add(time.Duration(len(uris))*time.Second/missedPerSecond)
	m.publish(uris)
}

// stop drops what is pending: the session has ended.
func (m *missedUpdates) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped, m.pending = true, nil
	stopTimer(&m.timer)
}

// publishUpdated publishes that resources were updated. Any goroutine may call it.
func (r *portRef) publishUpdated(uris []string) {
	for _, uri := range uris {
		r.publish(mcpvisor.Event{Kind: mcpvisor.EventResourceUpdated, URI: uri})
	}
}

// publish publishes an event that the server sent. It does not pass through the
// manager, as it changes nothing there. The events of a standby are dropped: the server
// in service sends the same.
func (r *portRef) publish(e mcpvisor.Event) {
	if r.inc.isStandby.Load() {
		return
	}
	e.Time, e.Server, e.Gen, e.Epoch = time.Now(), r.inc.server, r.inc.gen, r.inc.epoch
	r.rt.hub.Publish(e)
}
