package gateway

import (
	"context"
	"fmt"

	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/resource"
	"github.com/mcpvisor/mcpvisor/gateway/internal/subscriptions"
)

// subscription is what a session holds of a resource. It moves with the share of the server: to the copy that
// the client has, or back to the server that all share.
type subscription struct {
	resource.Name
	told *notifier // of its updates

	at     *subscriptions.Counter // that count it; guarded by connection.subscribedMu
	joined *tenant                // whose copies told hears because of it; nil: none. Guarded as at
}

// holdSubscription counts a subscription of the session, of which told hears. Each has to be released once.
func (c *connection) holdSubscription(told *notifier, r resource.Name) (*subscription, error) {
	most := int64(c.opts.limits.MaxSubscriptions)
	for {
		n := c.held.Load()
		if n >= most {
			return nil, message.InvalidParams(fmt.Sprintf("the session has %d subscriptions, which is the most; end some before you subscribe to others", most))
		}
		if c.held.CompareAndSwap(n, n+1) {
			break
		}
	}
	c.opts.settings.watch(c) // before the share is read, so that no change is missed
	if c.ctx.Err() != nil {
		c.opts.settings.ignore(c) // close may have done so before
	}
	c.subscribedMu.Lock()
	defer c.subscribedMu.Unlock()
	at, err := c.subscriptionsOf(r.Server)
	if err == nil && !c.view.OffersUpdate(r.Server, r.URI) { // since it was found
		_, err = c.theOnly("resource", r.URI, nil)
	}
	if err != nil {
		c.held.Add(-1)
		return nil, err
	}
	at.Hold(r)
	s := &subscription{Name: r, told: told, at: at}
	if c.subscribed == nil {
		c.subscribed = map[*subscription]bool{}
	}
	c.subscribed[s] = true
	return s, nil
}

// releaseSubscription ends what holdSubscription began, once. It does not wait; the subscription
// counts until its server has been told.
func (c *connection) releaseSubscription(s *subscription) {
	c.subscribedMu.Lock()
	held, at, joined := c.subscribed[s], s.at, s.joined
	delete(c.subscribed, s)
	c.subscribedMu.Unlock()
	if !held { // settingsChanged has released it
		return
	}
	if joined != nil {
		joined.leave(s.told)
	}
	at.Release(s.Name, func() { c.held.Add(-1) })
}

// dropReleased ends a subscription that was released while it was being made: before its notifier had it, or its server
// was asked for it.
func (c *connection) dropReleased(s *subscription) {
	c.subscribedMu.Lock()
	held, at := c.subscribed[s], s.at
	c.subscribedMu.Unlock()
	if !held {
		s.told.drop(s)
		at.Hold(s.Name)
		at.Release(s.Name, func() {})
	}
}

// placeOf is where a subscription is counted now.
func (c *connection) placeOf(s *subscription) *subscriptions.Counter {
	c.subscribedMu.Lock()
	defer c.subscribedMu.Unlock()
	return s.at
}

// subscribeNow makes a subscription at its server, also if it moves meanwhile.
func (c *connection) subscribeNow(ctx context.Context, s *subscription) error {
	for {
		at := c.placeOf(s)
		if err := at.Subscribe(ctx, s.Name); err == nil || c.placeOf(s) == at {
			return err
		}
	}
}

// settingsChanged implements settingsWatcher: the subscriptions to what is not offered any more end, and those to
// servers whose share has changed move, and count as updated, as after a restart.
func (c *connection) settingsChanged() {
	c.releaseHidden()
	type place struct {
		told   *notifier
		server string
	}
	moved, wanted := map[place]bool{}, map[*subscriptions.Counter]map[string]resource.Name{}
	c.subscribedMu.Lock()
	for s := range c.subscribed {
		at, err := c.subscriptionsOf(s.Server)
		if err != nil || at == s.at { // an error: nobody knows whose it is, or there is no such server now
			continue
		}
		at.Hold(s.Name)
		s.at.Release(s.Name, func() {})
		s.at = at
		if t := c.tenant.Load(); t != nil && s.joined == nil && at != c.subscriptions {
			t.join(s.told)
			s.joined = t
		}
		if wanted[at] == nil {
			wanted[at] = map[string]resource.Name{}
		}
		wanted[at][s.Server+" "+s.URI] = s.Name
		moved[place{s.told, s.Server}] = true
	}
	c.subscribedMu.Unlock()
	if len(moved) == 0 {
		return
	}
	go func() {
		stand := subscriptions.SubscribeAll(c.ctx, wanted)
		for at, of := range wanted {
			for key, r := range of {
				if _, ok := stand[key]; !ok {
					at.Retry(r.Server)
				}
			}
		}
		for p := range moved {
			p.told.reportUpdates(p.server, c.view.OffersUpdate)
		}
	}()
}

// releaseHidden ends the subscriptions to what is not offered any more.
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
		s.told.drop(s)
	}
}
