package actors

import (
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/transport"
)

// heard takes what a server tells without being asked. Whoever reads from the
// server calls it, so it must not wait.
func (p *port) heard(n transport.Notice) {
	switch n.Kind {
	case transport.ListChanged:
		p.outdated(n.Lists)
	case transport.ResourceUpdated:
		p.updated([]string{n.URI})
	case transport.LogMessage:
		p.emit(mcpvisor.Event{Kind: mcpvisor.EventLog, Log: n.Log})
	case transport.Acknowledged:
		p.acknowledged(n)
	case transport.Gap: // what happened meanwhile was told to nobody
		p.outdated(catalog.AllLists)
		p.updated(p.watchedNow())
	}
}

func (p *port) updated(uris []string) {
	for _, uri := range uris {
		p.emit(mcpvisor.Event{Kind: mcpvisor.EventResourceUpdated, URI: uri})
	}
}

// emit publishes an event of the server's own. It does not go through the
// manager: it changes nothing there. What a standby tells, the server in service
// tells too.
func (p *port) emit(e mcpvisor.Event) {
	if p.inc.isStandby.Load() {
		return
	}
	e.Time, e.Server, e.Gen, e.Epoch = time.Now(), p.inc.server, p.inc.gen, p.inc.epoch
	p.rt.hub.publish(e)
}
