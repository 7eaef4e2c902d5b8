// Package subscriptions counts the sessions that have subscribed to each resource, so that a server gets
// one subscription for all of them, and again after it was replaced. A Counter has the counts; its
// callers bound the subscriptions of each session.
package subscriptions

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor/gateway/internal/resource"
)

// Counter counts the subscribed sessions of each resource: those of one transport, or of one client that
// has copies. The first session makes the subscription at the server, and the last one ends it. Safe for
// concurrent use.
type Counter struct {
	// Bound bounds SubscribeAll, 5 seconds by default. It is set before the first use.
	Bound time.Duration

	ask  func(ctx context.Context, r resource.Name, on bool) error // read only
	late atomic.Bool                                               // see IsLate

	mu       sync.Mutex // guards the fields below
	sessions map[resource.Name]int
	renewals map[string]*renewal // the last one, by server
}

// New returns a Counter. ask makes a subscription at the server or, with on false, ends it.
func New(ask func(ctx context.Context, r resource.Name, on bool) error) *Counter {
	return &Counter{ask: ask, Bound: subscribeAllTimeout, sessions: map[resource.Name]int{}, renewals: map[string]*renewal{}}
}

// AreHeld reports whether a session has subscribed to anything.
func (c *Counter) AreHeld() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.sessions) > 0
}

// Sessions returns the number of sessions that have subscribed to a resource.
func (c *Counter) Sessions(r resource.Name) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions[r]
}

// Hold counts one more session. Each call needs one of Release, whether or not the server accepts the
// subscription.
func (c *Counter) Hold(r resource.Name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sessions[r]++
}

// Subscribe makes the subscription at the server. The client does nothing if it has made it already.
func (c *Counter) Subscribe(ctx context.Context, r resource.Name) error {
	return c.ask(ctx, r, true)
}

// IsLate reports whether Retry was called: a counted subscription is not made yet, even at the first
// incarnation of the server.
func (c *Counter) IsLate() bool { return c.late.Load() }

// Retry lets the subscriptions to a server be made when it is ready the next time.
func (c *Counter) Retry(server string) {
	c.late.Store(true)
	c.Forget(server, math.MaxUint64)
}

// subscribeAllTimeout is the default of Counter.Bound.
const subscribeAllTimeout = 5 * time.Second

// SubscribeAll makes subscriptions at several counters concurrently, and returns those that succeeded in
// time.
func SubscribeAll(ctx context.Context, at map[*Counter]map[string]resource.Name) map[string]resource.Name {
	active := map[string]resource.Name{}
	var mu sync.Mutex // guards active
	var all sync.WaitGroup
	for of, wanted := range at {
		bounded, cancel := context.WithTimeout(ctx, of.Bound)
		defer cancel()
		for uri, r := range wanted {
			all.Go(func() {
				if of.Subscribe(bounded, r) == nil {
					mu.Lock()
					defer mu.Unlock()
					active[uri] = r
				}
			})
		}
	}
	all.Wait()
	return active
}

// unsubscribeTimeout bounds the request that ends a subscription. No caller waits for it.
const unsubscribeTimeout = 5 * time.Second

// Release counts one session less. It does not wait for the server. ended is called at once or, after
// the last session, when the server has been told.
func (c *Counter) Release(r resource.Name, ended func()) {
	c.mu.Lock()
	c.sessions[r]--
	last := c.sessions[r] == 0
	if last {
		delete(c.sessions, r)
	}
	c.mu.Unlock()
	if !last {
		ended()
		return
	}
	go func() {
		defer ended()
		ctx, cancel := context.WithTimeout(context.Background(), unsubscribeTimeout)
		defer cancel()
		_ = c.ask(ctx, r, false) // it fails if the server or the client is gone
		c.mu.Lock()
		again := c.sessions[r] > 0
		c.mu.Unlock()
		if again { // a session has subscribed meanwhile, perhaps before ask ended the subscription
			_ = c.ask(ctx, r, true)
		}
	}()
}

// renewal makes the subscriptions of all sessions again at a new registration of a server: those of the
// client end with the old registration.
type renewal struct {
	gen  uint64        // of the registration
	done chan struct{} // closed when every subscription has succeeded or failed
}

// Renew makes the subscriptions to a server that is ready again: once for each of its registrations, and
// again if that has failed. It does not wait for the server. done is closed at the end.
func (c *Counter) Renew(server string, gen uint64) (done <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.renewals[server]; last != nil && last.gen >= gen {
		return last.done
	}
	made := &renewal{gen, make(chan struct{})}
	c.renewals[server] = made
	wanted := map[string]resource.Name{}
	for r := range c.sessions {
		if r.Server == server {
			wanted[r.URI] = r
			c.sessions[r]++ // so that its subscription does not end before it was made
		}
	}
	if len(wanted) == 0 {
		close(made.done)
		return made.done
	}
	go func() {
		defer close(made.done)
		if len(SubscribeAll(context.Background(), map[*Counter]map[string]resource.Name{c: wanted})) < len(wanted) {
			c.Forget(server, gen)
		}
		for _, r := range wanted {
			c.Release(r, func() {})
		}
	}()
	return made.done
}

// Forget drops the last renewal of a server, if it was for this registration or an earlier one.
func (c *Counter) Forget(server string, gen uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.renewals[server]; last != nil && last.gen <= gen {
		delete(c.renewals, server)
	}
}
