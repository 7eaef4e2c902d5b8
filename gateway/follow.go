package gateway

import "github.com/mcpvisor/mcpvisor"

// watchedKinds are the events that follow gets, beside EventMissed.
var watchedKinds = []mcpvisor.EventKind{mcpvisor.EventReady, mcpvisor.EventDown, mcpvisor.EventChanged,
	mcpvisor.EventUnregistered, mcpvisor.EventResourceUpdated, mcpvisor.EventLog}

// readOffers returns which lists of each ready server have entries.
func (c *connection) readOffers() map[string]lists {
	offered := map[string]lists{}
	for _, s := range c.client.Status() {
		offered[s.Name] = listsOf(s.Catalog.Tools, s.Catalog.Prompts, s.Catalog.Resources+s.Catalog.Templates)
	}
	return offered
}

// follow reports the events of the client to the session, until one of them ends. It owns
// offered, which it keeps up to date.
func (c *connection) follow(events <-chan mcpvisor.Event, offered map[string]lists) {
	for e := range events {
		if e.Kind == mcpvisor.EventUnregistered {
			c.subscriptions.forget(e.Server, e.Gen)
		}
		switch e.Kind {
		case mcpvisor.EventReady:
			now := listsOf(e.Tools, e.Prompts, e.Resources+e.Templates)
			c.out.notify.reportLists(offered[e.Server] | now)
			offered[e.Server] = now
			c.renew(e.Server, e.Gen)
		case mcpvisor.EventDown, mcpvisor.EventUnregistered:
			c.out.notify.reportLists(offered[e.Server])
			delete(offered, e.Server)
		case mcpvisor.EventChanged:
			c.out.notify.reportLists(changedLists(e.Change))
			offered[e.Server] = listsOf(e.Tools, e.Prompts, e.Resources+e.Templates)
		case mcpvisor.EventResourceUpdated:
			c.out.notify.reportUpdate(e.Server, e.URI)
		case mcpvisor.EventLog:
			c.out.notify.reportLog(*e.Log)
		case mcpvisor.EventMissed:
			offered = c.readOffers()
			c.out.notify.reportLists(allLists)
			c.out.notify.reportUpdate("", "")
			c.renewAll()
		case mcpvisor.EventRegistered, mcpvisor.EventConnecting, mcpvisor.EventStartFailed, mcpvisor.EventRetry, mcpvisor.EventStable, mcpvisor.EventStandby, mcpvisor.EventStandbyLost, mcpvisor.EventParked, mcpvisor.EventAuthRequired, mcpvisor.EventEvicted, mcpvisor.EventTaskRecovered, mcpvisor.EventTaskLost: // not watched
		}
	}
	for _, r := range c.out.notify.close() {
		c.releaseSubscription(r)
	}
	c.drain()
}

func listsOf(tools, prompts, resources int) (l lists) {
	for _, list := range []struct {
		entries int
		list    lists
	}{{tools, toolList}, {prompts, promptList}, {resources, resourceList}} {
		if list.entries > 0 {
			l |= list.list
		}
	}
	return l
}

func changedLists(c *mcpvisor.Change) (l lists) {
	for _, list := range []struct {
		unchanged bool
		list      lists
	}{{c.Tools.IsZero(), toolList}, {c.Prompts.IsZero(), promptList}, {c.Resources.IsZero() && c.Templates.IsZero(), resourceList}} {
		if !list.unchanged {
			l |= list.list
		}
	}
	return l
}
