package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
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
func (r *request) subscribe() (any, error) {
	p := r.params
	found, err := r.gateway.findResource(r.ctx, p.uri)
	if err != nil {
		return nil, err
	}
	s, err := r.session.subscriber.hold(r.session.notify, found)
	if err != nil {
		return nil, r.session.protocolError(p.uri, err)
	}
	added := r.session.notify.Subscribe(s, p.uri)
	if !added { // the session has it already, or has ended
		defer r.session.subscriber.release(s)
	}
	// The client is asked in any case: the server may have been replaced meanwhile.
	if err := r.session.subscriber.subscribeNow(r.ctx, s); err != nil {
		if added {
			r.session.subscriber.end(p.uri)
		}
		return nil, r.session.protocolError(p.uri, err)
	}
	if added {
		r.session.subscriber.dropReleased(s)
	}
	return struct{}{}, nil
}

// unsubscribe answers resources/unsubscribe. Without a subscription it has no effect.
func (r *request) unsubscribe() (any, error) {
	r.session.subscriber.end(r.params.uri)
	return struct{}{}, nil
}

// end ends the subscription to a URI, if there is one.
func (s *subscriber) end(uri string) {
	if one, ok := s.session.notify.Unsubscribe(uri); ok {
		s.release(one)
	}
}

// listen answers subscriptions/listen (2026-07-28). It acknowledges what it will report, and reports it
// until the request is canceled, or the client is closed. The acknowledgement leaves out subscriptions
// that a server does not accept in time, and those that the session may not have. Sessions of older
// versions do not have the method: over HTTP such a request would outlive the token of its client.
func (r *request) listen() (any, error) {
	p := r.params
	if r.session.legacy.Load() && !p.modern() {
		return nil, message.MethodNotFound(r.Method)
	}
	if p.notifications == nil {
		return nil, message.InvalidParams("params of subscriptions/listen have no notifications")
	}
	if n, most := len(p.notifications.ResourceSubscriptions), r.gateway.opts.limits.MaxSubscriptions; n > most {
		return nil, message.InvalidParams(fmt.Sprintf("params of subscriptions/listen have %d URIs; use at most %d", n, most))
	}
	tasks, err := r.watchedTasks()
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	l := &listener{ID: r.ID, Ended: ended}
	granted := subscribedNotifications{NotificationSubscriptions: mcp.NotificationSubscriptions{ToolsListChanged: p.notifications.ToolsListChanged,
		PromptsListChanged: p.notifications.PromptsListChanged, ResourcesListChanged: p.notifications.ResourcesListChanged},
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
	at := map[*subscriptions.Counter]map[string]resource.Name{}                 // wanted, by where they are counted
	finding, stop := overdue.WithTimeout(r.ctx, max(r.gateway.opts.maxWait, 0)) // one wait for all
	defer stop()
	for _, uri := range p.notifications.ResourceSubscriptions {
		found, err := r.gateway.findResource(finding, uri)
		if _, twice := wanted[uri]; err != nil || twice || r.ctx.Err() != nil {
			continue
		}
		one, err := r.session.subscriber.hold(r.exchange.out.notify, found)
		if err != nil {
			continue
		}
		of := one.at.Load()
		if wanted[uri] = one; at[of] == nil {
			at[of] = map[string]resource.Name{}
		}
		at[of][uri] = found
	}
	if t := r.session.tenancy.own.Load(); t != nil {
		t.join(r.exchange.out.notify, r.gateway.view)
		defer t.leave(r.exchange.out.notify)
	}
	active := subscriptions.SubscribeAll(r.ctx, at)
	l.URIs = make(map[string]*subscription, len(active))
	for uri, one := range wanted {
		if _, ok := active[uri]; ok {
			l.URIs[uri] = one
			defer r.session.subscriber.release(one)
		} else {
			r.session.subscriber.release(one)
		}
	}
	granted.ResourceSubscriptions = slices.Sorted(maps.Keys(l.URIs))
	l.Acknowledge(granted)
	if r.exchange.out.notify.Listen(l) {
		defer r.exchange.out.notify.Leave(l)
		for uri := range active {
			r.session.subscriber.dropReleased(wanted[uri])
		}
		r.session.watchTasks(r.ctx, r.exchange.out.notify, l, tasks)
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

	at     atomic.Pointer[subscriptions.Counter] // counts it; written under subscriber.mu
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

// subscriber holds what a session has subscribed to. The notifier of the session, or of a subscriptions/listen, hears of
// the updates.
type subscriber struct {
	session *session
	gateway *gateway
	count   atomic.Int64 // of subscriptions

	mu   sync.Mutex             // guards held. May be locked while the tenant is made
	held map[*subscription]bool // those that are not released
}

// hold counts a subscription of the session. told hears of its updates. Each call needs one
// of release.
func (s *subscriber) hold(told *notifier, r resource.Name) (*subscription, error) {
	most := int64(s.gateway.opts.limits.MaxSubscriptions)
	for {
		n := s.count.Load()
		if n >= most {
			return nil, message.InvalidParams(fmt.Sprintf("the session has %d subscriptions, which is the most; end some before you subscribe to others", most))
		}
		if s.count.CompareAndSwap(n, n+1) {
			break
		}
	}
	if !s.session.account.Take(subscriptionBytes(r.URI)) {
		s.count.Add(-1)
		return nil, message.Busy(manyHeld)
	}
	s.gateway.opts.settings.watch(s) // before the share is read, so that no change is missed
	if s.session.ctx.Err() != nil {
		s.gateway.opts.settings.ignore(s) // close may have done so before
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at, err := s.session.tenancy.subscriptionsOf(r.Server)
	if err == nil && !s.gateway.view.OffersUpdate(r.Server, r.URI) { // a reload has hidden it since it was found
		_, err = s.gateway.theOnly("resource", r.URI, nil)
	}
	if err != nil {
		s.endCount(r)
		return nil, err
	}
	at.Hold(r)
	one := &subscription{Name: r, told: told}
	one.at.Store(at)
	if s.held == nil {
		s.held = map[*subscription]bool{}
	}
	s.held[one] = true
	return one, nil
}

// release ends what hold began, once. It does not wait. The subscription counts
// until its server has been told.
func (s *subscriber) release(one *subscription) {
	s.mu.Lock()
	held, at, joined := s.held[one], one.at.Load(), one.joined
	delete(s.held, one)
	s.mu.Unlock()
	if !held { // settingsChanged has released it
		return
	}
	if joined != nil {
		joined.leave(one.told)
	}
	at.Release(one.Name, func() { s.endCount(one.Name) })
}

// endCount ends the count of a subscription.
func (s *subscriber) endCount(r resource.Name) {
	s.count.Add(-1)
	s.session.account.Return(subscriptionBytes(r.URI))
}

// dropReleased ends a subscription that was released while it was being made: before its notifier had
// it, or before its server was asked for it.
func (s *subscriber) dropReleased(one *subscription) {
	s.mu.Lock()
	held, at := s.held[one], one.at.Load()
	s.mu.Unlock()
	if !held {
		one.told.Drop(one)
		at.Hold(one.Name)
		at.Release(one.Name, func() {})
	}
}

// subscribeNow makes a subscription at its server, and follows it if it moves meanwhile.
func (s *subscriber) subscribeNow(ctx context.Context, one *subscription) error {
	for {
		at := one.at.Load()
		err := at.Subscribe(ctx, one.Name)
		if errors.Is(err, errNotCopied) { // the server is ready now, and serves this session itself
			s.settingsChanged()
		}
		if err == nil || one.at.Load() == at {
			return err
		}
	}
}

// settingsChanged implements settingsWatcher. Subscriptions to resources that are no longer offered end.
// Subscriptions to servers whose share has changed move, and count as updated, as after a restart.
func (s *subscriber) settingsChanged() {
	s.releaseHidden()
	type target struct {
		told   *notifier
		server string
	}
	moved, wanted := map[target]bool{}, map[*subscriptions.Counter]map[string]resource.Name{}
	s.mu.Lock()
	for one := range s.held {
		at, err := s.session.tenancy.subscriptionsOf(one.Server)
		if err != nil || at == one.at.Load() { // an error: the session has no tenant, or the server is gone
			continue
		}
		at.Hold(one.Name)
		one.at.Swap(at).Release(one.Name, func() {})
		if t := s.session.tenancy.own.Load(); t != nil && one.joined == nil && at != s.gateway.subscriptions {
			t.join(one.told, s.gateway.view)
			one.joined = t
		}
		if wanted[at] == nil {
			wanted[at] = map[string]resource.Name{}
		}
		wanted[at][one.Server+" "+one.URI] = one.Name
		moved[target{one.told, one.Server}] = true
	}
	s.mu.Unlock()
	if len(moved) == 0 {
		return
	}
	go func() {
		active := subscriptions.SubscribeAll(s.session.ctx, wanted)
		for at, of := range wanted {
			for key, r := range of {
				if _, ok := active[key]; !ok {
					at.Retry(r.Server)
				}
			}
		}
		for p := range moved {
			p.told.ReportUpdates(p.server, s.gateway.view.OffersUpdate)
		}
	}()
}

// releaseHidden ends the subscriptions to resources that are no longer offered.
func (s *subscriber) releaseHidden() {
	var hidden []*subscription
	s.mu.Lock()
	for one := range s.held {
		if !s.gateway.view.OffersUpdate(one.Server, one.URI) {
			hidden = append(hidden, one)
		}
	}
	s.mu.Unlock()
	for _, one := range hidden {
		s.release(one) // first: see dropReleased
		one.told.Drop(one)
	}
}
