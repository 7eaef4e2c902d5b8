package gateway

import (
	"fmt"
	"maps"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/gateway/internal/listing"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/resource"
	"github.com/mcpvisor/mcpvisor/gateway/internal/subscriptions"
)

// listen answers subscriptions/listen (2026-07-28): it acknowledges what it will report, and
// reports it until the request is canceled. The answer comes when the client is closed. A
// server that does not accept a subscription in time is not in the acknowledgement, nor is what
// the session may not have. A session of an older version does not have the method: over HTTP its streams would
// outlive the token of the client.
func (c *connection) listen(r *request, p *params) (any, error) {
	if c.legacy.Load() && !p.modern() {
		return nil, message.MethodNotFound(r.Method)
	}
	if p.Notifications == nil {
		return nil, message.InvalidParams("params of subscriptions/listen have no notifications")
	}
	if n, most := len(p.Notifications.ResourceSubscriptions), c.opts.limits.MaxSubscriptions; n > most {
		return nil, message.InvalidParams(fmt.Sprintf("params of subscriptions/listen have %d URIs; use at most %d", n, most))
	}
	tasks, err := c.watchedTasks(r, p)
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	l := &listener{id: r.ID, ended: ended}
	granted := subscribedNotifications{NotificationSubscriptions: mcp.NotificationSubscriptions{ToolsListChanged: p.Notifications.ToolsListChanged,
		PromptsListChanged: p.Notifications.PromptsListChanged, ResourcesListChanged: p.Notifications.ResourcesListChanged},
		TaskIDs: slices.Sorted(maps.Keys(tasks))}
	for _, wanted := range []struct {
		on   bool
		list listing.Lists
	}{{granted.ToolsListChanged, listing.ToolList}, {granted.PromptsListChanged, listing.PromptList}, {granted.ResourcesListChanged, listing.ResourceList}} {
		if wanted.on {
			l.lists |= wanted.list
		}
	}
	wanted := map[string]*subscription{}
	at := map[*subscriptions.Counter]map[string]resource.Name{} // those of wanted
	for _, uri := range p.Notifications.ResourceSubscriptions {
		found, err := c.findResource(uri)
		if _, twice := wanted[uri]; err != nil || twice || r.ctx.Err() != nil {
			continue
		}
		one, err := c.holdSubscription(r.out.notify, found)
		if err != nil {
			continue
		}
		of := c.placeOf(one)
		if wanted[uri] = one; at[of] == nil {
			at[of] = map[string]resource.Name{}
		}
		at[of][uri] = found
	}
	if t := c.tenant.Load(); t != nil {
		t.join(r.out.notify)
		defer t.leave(r.out.notify)
	}
	stand := subscriptions.SubscribeAll(r.ctx, at)
	l.uris = make(map[string]*subscription, len(stand))
	for uri, one := range wanted {
		if _, stands := stand[uri]; stands {
			l.uris[uri] = one
			defer c.releaseSubscription(one)
		} else {
			c.releaseSubscription(one)
		}
	}
	granted.ResourceSubscriptions = slices.Sorted(maps.Keys(l.uris))
	l.ack = message.Notification("notifications/subscriptions/acknowledged", l.params(map[string]any{"notifications": granted}))
	if r.out.notify.listen(l) {
		defer r.out.notify.leave(l)
		for uri := range stand {
			c.dropReleased(wanted[uri])
		}
		c.watchTasks(r.ctx, r.out.notify, l, tasks)
		select {
		case <-r.ctx.Done():
		case <-ended:
		}
	}
	return map[string]any{"_meta": map[string]any{mcp.MetaKeySubscriptionID: r.ID.Raw()}}, nil
}
