// Package subscriptions counts the sessions that have subscribed to each resource, so that a server is asked once
// for all of them, also when it was replaced.
package subscriptions

import (
	"context"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor/gateway/internal/resource"
)

// Counter counts the sessions of one transport, or of one client that has a copy of a server, that
// subscribed to each resource. The client of the servers is asked by the first and by the last of them. Safe for
// concurrent use.
type Counter struct {
	// Bound bounds SubscribeAll, 5 seconds by default. It is set before the first use.
	Bound time.Duration

	ask  func(ctx context.Context, r resource.Name, on bool) error // read only
	late atomic.Bool                                               // what is held was not subscribed to when the first server was asked

	mu       sync.Mutex // guards the fields below
	sessions map[resource.Name]int
	renewals map[string]*renewal // the last one of each server
}

// New returns a Counter. ask subscribes at the server, or ends that.
func New(ask func(ctx context.Context, r resource.Name, on bool) error) *Counter {
	return &Counter{ask: ask, Bound: subscribeAllTimeout, sessions: map[resource.Name]int{}, renewals: map[string]*renewal{}}
}

// AreHeld reports whether a session has subscribed to anything.
func (c *Counter) AreHeld() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.sessions) > 0
}

// Sessions is how many sessions have subscribed to a resource.
func (c *Counter) Sessions(r resource.Name) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions[r]
}

// Hold counts one more session. Each has to release the resource once, whether or not the
// client accepts the subscription.
func (c *Counter) Hold(r resource.Name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sessions[r]++
}

// Subscribe asks the client, which does nothing if the subscription stands.
func (c *Counter) Subscribe(ctx context.Context, r resource.Name) error {
	return c.ask(ctx, r, true)
}

// IsLate reports whether something is held that was not subscribed to when the first server was asked.
func (c *Counter) IsLate() bool { return c.late.Load() }

// Retry lets what is held of a server be subscribed to when it is ready the next time.
func (c *Counter) Retry(server string) {
	c.late.Store(true)
	c.Forget(server, math.MaxUint64)
}

// subscribeAllTimeout is the Bound of a transport.
const subscribeAllTimeout = 5 * time.Second

// subscribeAll asks the client for all of them at once, and returns those that stand in time.
func (c *Counter) subscribeAll(ctx context.Context, wanted map[string]resource.Name) map[string]resource.Name {
	ctx, cancel := context.WithTimeout(ctx, c.Bound)
	defer cancel()
	stand := make(map[string]resource.Name, len(wanted))
	var mu sync.Mutex // guards stand
	var all sync.WaitGroup
	for uri, r := range wanted {
		all.Go(func() {
			if c.Subscribe(ctx, r) == nil {
				mu.Lock()
				defer mu.Unlock()
				stand[uri] = r
			}
		})
	}
	all.Wait()
	return stand
}

// SubscribeAll asks for all of several at once, and returns those that stand in time.
func SubscribeAll(ctx context.Context, at map[*Counter]map[string]resource.Name) map[string]resource.Name {
	stand := map[string]resource.Name{}
	var mu sync.Mutex // guards stand
	var all sync.WaitGroup
	for of, wanted := range at {
		all.Go(func() {
			some := of.subscribeAll(ctx, wanted)
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(stand, some)
		})
	}
	all.Wait()
	return stand
}

// unsubscribeTimeout bounds the request that ends a subscription. Nothing waits for it.
const unsubscribeTimeout = 5 * time.Second

// Release counts one session less. It does not wait for the server: ended is called when
// that has been told, if this was the last session.
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
		if again { // a session has subscribed meanwhile, perhaps before the line above
			_ = c.ask(ctx, r, true)
		}
	}()
}

// renewal makes the subscriptions of a transport again at a registration of a server: the
// client's own belong to the registration and end with it.
type renewal struct {
	gen  uint64        // of the registration
	done chan struct{} // closed when every subscription stands or has failed
}

// Renew subscribes again to what the sessions hold of a server that is ready, once for each
// of its registrations, and again if that has failed. It does not wait for the server: the
// channel is closed at the end.
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
			c.sessions[r]++ // so that its subscription ends after it was made
		}
	}
	if len(wanted) == 0 {
		close(made.done)
		return made.done
	}
	go func() {
		defer close(made.done)
		if len(c.subscribeAll(context.Background(), wanted)) < len(wanted) {
			c.Forget(server, gen)
		}
		for _, r := range wanted {
			c.Release(r, func() {})
		}
	}()
	return made.done
}

// Forget drops the renewal at a registration, or at those before it.
func (c *Counter) Forget(server string, gen uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.renewals[server]; last != nil && last.gen <= gen {
		delete(c.renewals, server)
	}
}
