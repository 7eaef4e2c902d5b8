package actors

import (
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
		p.reconciler.subscriber.OnAck(n)
	case transport.Gap: // notifications were lost
		p.refresher.markChanged(catalog.AllLists)
		p.ref.publishUpdated(p.reconciler.subscriber.Watched())
	}
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
