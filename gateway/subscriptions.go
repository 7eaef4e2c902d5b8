package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/gateway/internal/listing"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/notices"
	"github.com/mcpvisor/mcpvisor/gateway/internal/resource"
	"github.com/mcpvisor/mcpvisor/gateway/internal/subscriptions"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
)

// subscribe answers resources/subscribe.
func (c *connection) subscribe(r *request, p *params) (any, error) {
	found, err := c.findResource(r.ctx, p.URI)
	if err != nil {
		return nil, err
	}
	s, err := c.holdSubscription(c.notify, found)
	if err != nil {
		return nil, c.protocolError(p.URI, err)
	}
	added := c.notify.Subscribe(s, p.URI)
	if !added { // the session has it already, or has ended
		defer c.releaseSubscription(s)
	}
	// The client is asked in any case: the server may have been replaced meanwhile.
	if err := c.subscribeNow(r.ctx, s); err != nil {
		if added {
			c.endSubscription(p.URI)
		}
		return nil, c.protocolError(p.URI, err)
	}
	if added {
		c.dropReleased(s)
	}
	return struct{}{}, nil
}

// unsubscribe answers resources/unsubscribe. Without a subscription it has no effect.
func (c *connection) unsubscribe(_ *request, p *params) (any, error) {
	c.endSubscription(p.URI)
	return struct{}{}, nil
}

// endSubscription ends the subscription to a URI, if there is one.
func (c *connection) endSubscription(uri string) {
	if s, ok := c.notify.Unsubscribe(uri); ok {
		c.releaseSubscription(s)
	}
}

// listen answers subscriptions/listen (2026-07-28). It acknowledges what it will report, and reports it
// until the request is canceled, or the client is closed. The acknowledgement leaves out subscriptions
// that a server does not accept in time, and those that the session may not have. Sessions of older
// versions do not have the method: over HTTP such a request would outlive the token of its client.
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
	l := &listener{ID: r.ID, Ended: ended}
	granted := subscribedNotifications{NotificationSubscriptions: mcp.NotificationSubscriptions{ToolsListChanged: p.Notifications.ToolsListChanged,
		PromptsListChanged: p.Notifications.PromptsListChanged, ResourcesListChanged: p.Notifications.ResourcesListChanged},
		TaskIDs: slices.Sorted(maps.Keys(tasks))}
	for _, wanted := range []struct {
		on   bool
		list listing.Lists
	}{{granted.ToolsListChanged, listing.ToolList}, {granted.PromptsListChanged, listing.PromptList}, {granted.ResourcesListChanged, listing.ResourceList}} {
		if wanted.on {
			l.Lists |= wanted.list
		}
	}
	wanted := map[string]*subscription{}
	at := map[*subscriptions.Counter]map[string]resource.Name{}         // wanted, by where they are counted
	finding, stop := overdue.WithTimeout(r.ctx, max(c.opts.maxWait, 0)) // one wait for all
	defer stop()
	for _, uri := range p.Notifications.ResourceSubscriptions {
		found, err := c.findResource(finding, uri)
		if _, twice := wanted[uri]; err != nil || twice || r.ctx.Err() != nil {
			continue
		}
		one, err := c.holdSubscription(r.out.notify, found)
		if err != nil {
			continue
		}
		of := one.at.Load()
		if wanted[uri] = one; at[of] == nil {
			at[of] = map[string]resource.Name{}
		}
		at[of][uri] = found
	}
	if t := c.tenant.Load(); t != nil {
		t.join(r.out.notify, c.view)
		defer t.leave(r.out.notify)
	}
	active := subscriptions.SubscribeAll(r.ctx, at)
	l.URIs = make(map[string]*subscription, len(active))
	for uri, one := range wanted {
		if _, ok := active[uri]; ok {
			l.URIs[uri] = one
			defer c.releaseSubscription(one)
		} else {
			c.releaseSubscription(one)
		}
	}
	granted.ResourceSubscriptions = slices.Sorted(maps.Keys(l.URIs))
	l.Acknowledge(granted)
	if r.out.notify.Listen(l) {
		defer r.out.notify.Leave(l)
		for uri := range active {
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

// subscription is one subscription of a session to a resource. When the share of the server changes, it
// moves: to the copy that the client has, or back to the server that all clients share.
type subscription struct {
	resource.Name
	told *notifier // hears of its updates

	at     atomic.Pointer[subscriptions.Counter] // counts it; written under connection.subscribedMu
	joined *tenant                               // the tenant that told has joined because of it; nil: none. Guarded by that
}

// heardFrom returns what selects the subscriptions that a counter counts: others hear of another process.
func heardFrom(at *subscriptions.Counter) func(*subscription) bool {
	return func(s *subscription) bool { return s.at.Load() == at }
}

// Resource implements [notices.Subscription].
func (s *subscription) Resource() resource.Name { return s.Name }

// A notifier holds the notifications of a session, or of one POST; a listener is one stream of them.
type (
	notifier = notices.Notifier[*subscription]
	listener = notices.Listener[*subscription]
)

// holdSubscription counts a subscription of the session. told hears of its updates. Each call needs one
// of releaseSubscription.
func (c *connection) holdSubscription(told *notifier, r resource.Name) (*subscription, error) {
	most := int64(c.opts.limits.MaxSubscriptions)
	for {
		n := c.subscriptionCount.Load()
		if n >= most {
			return nil, message.InvalidParams(fmt.Sprintf("the session has %d subscriptions, which is the most; end some before you subscribe to others", most))
		}
		if c.subscriptionCount.CompareAndSwap(n, n+1) {
			break
		}
	}
	if err := c.takeSubscription(r.URI); err != nil {
		c.subscriptionCount.Add(-1)
		return nil, err
	}
	c.opts.settings.watch(c) // before the share is read, so that no change is missed
	if c.ctx.Err() != nil {
		c.opts.settings.ignore(c) // close may have done so before
	}
	c.subscribedMu.Lock()
	defer c.subscribedMu.Unlock()
	at, err := c.subscriptionsOf(r.Server)
	if err == nil && !c.view.OffersUpdate(r.Server, r.URI) { // a reload has hidden it since it was found
		_, err = c.theOnly("resource", r.URI, nil)
	}
	if err != nil {
		c.endCount(r)
		return nil, err
	}
	at.Hold(r)
	s := &subscription{Name: r, told: told}
	s.at.Store(at)
	if c.subscribed == nil {
		c.subscribed = map[*subscription]bool{}
	}
	c.subscribed[s] = true
	return s, nil
}

// releaseSubscription ends what holdSubscription began, once. It does not wait. The subscription counts
// until its server has been told.
func (c *connection) releaseSubscription(s *subscription) {
	c.subscribedMu.Lock()
	held, at, joined := c.subscribed[s], s.at.Load(), s.joined
	delete(c.subscribed, s)
	c.subscribedMu.Unlock()
	if !held { // settingsChanged has released it
		return
	}
	if joined != nil {
		joined.leave(s.told)
	}
	at.Release(s.Name, func() { c.endCount(s.Name) })
}

// endCount ends the count of a subscription.
func (c *connection) endCount(r resource.Name) {
	c.subscriptionCount.Add(-1)
	c.returnSubscription(r.URI)
}

// dropReleased ends a subscription that was released while it was being made: before its notifier had
// it, or before its server was asked for it.
func (c *connection) dropReleased(s *subscription) {
	c.subscribedMu.Lock()
	held, at := c.subscribed[s], s.at.Load()
	c.subscribedMu.Unlock()
	if !held {
		s.told.Drop(s)
		at.Hold(s.Name)
		at.Release(s.Name, func() {})
	}
}

// subscribeNow makes a subscription at its server, and follows it if it moves meanwhile.
func (c *connection) subscribeNow(ctx context.Context, s *subscription) error {
	for {
		at := s.at.Load()
		err := at.Subscribe(ctx, s.Name)
		if errors.Is(err, errNotCopied) { // the server is ready now, and serves this session itself
			c.settingsChanged()
		}
		if err == nil || s.at.Load() == at {
			return err
		}
	}
}

// settingsChanged implements settingsWatcher. Subscriptions to resources that are no longer offered end.
// Subscriptions to servers whose share has changed move, and count as updated, as after a restart.
func (c *connection) settingsChanged() {
	c.releaseHidden()
	type target struct {
		told   *notifier
		server string
	}
	moved, wanted := map[target]bool{}, map[*subscriptions.Counter]map[string]resource.Name{}
	c.subscribedMu.Lock()
	for s := range c.subscribed {
		at, err := c.subscriptionsOf(s.Server)
		if err != nil || at == s.at.Load() { // an error: the connection has no tenant, or the server is gone
			continue
		}
		at.Hold(s.Name)
		s.at.Swap(at).Release(s.Name, func() {})
		if t := c.tenant.Load(); t != nil && s.joined == nil && at != c.subscriptions {
			t.join(s.told, c.view)
			s.joined = t
		}
		if wanted[at] == nil {
			wanted[at] = map[string]resource.Name{}
		}
		wanted[at][s.Server+" "+s.URI] = s.Name
		moved[target{s.told, s.Server}] = true
	}
	c.subscribedMu.Unlock()
	if len(moved) == 0 {
		return
	}
	go func() {
		active := subscriptions.SubscribeAll(c.ctx, wanted)
		for at, of := range wanted {
			for key, r := range of {
				if _, ok := active[key]; !ok {
					at.Retry(r.Server)
				}
			}
		}
		for p := range moved {
			p.told.ReportUpdates(p.server, c.view.OffersUpdate)
		}
	}()
}

// releaseHidden ends the subscriptions to resources that are no longer offered.
func (c *connection) releaseHidden() {
	var hidden []*subscription
	c.subscribedMu.Lock()
	for s := range c.subscribed {
		if !c.view.OffersUpdate(s.Server, s.URI) {
			hidden = append(hidden, s)
		}
	}
	c.subscribedMu.Unlock()
	for _, s := range hidden {
		c.releaseSubscription(s) // first: see dropReleased
		s.told.Drop(s)
	}
}
