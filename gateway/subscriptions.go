package gateway

import (
	"context"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor/gateway/internal/resource"
)

// subscriptions counts the sessions of one transport, or of one client that has a copy of a server, that
// subscribed to each resource. The client of the servers is asked by the first and by the last of them.
type subscriptions struct {
	ask   func(ctx context.Context, r resource.Name, on bool) error // subscribes at the server, or ends that
	bound time.Duration                                             // of subscribeAll; read only after newSubscriptions

	late atomic.Bool // what is held was not subscribed to when the first server was asked

	mu       sync.Mutex // guards the fields below
	sessions map[resource.Name]int
	renewals map[string]*renewal // the last one of each server
}

func newSubscriptions(ask func(ctx context.Context, r resource.Name, on bool) error) *subscriptions {
	return &subscriptions{ask: ask, bound: subscribeAllTimeout, sessions: map[resource.Name]int{}, renewals: map[string]*renewal{}}
}

// areHeld reports whether a session has subscribed to anything.
func (s *subscriptions) areHeld() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions) > 0
}

// hold counts one more session. Each has to release the resource once, whether or not the
// client accepts the subscription.
func (s *subscriptions) hold(r resource.Name) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[r]++
}

// subscribe asks the client, which does nothing if the subscription stands.
func (s *subscriptions) subscribe(ctx context.Context, r resource.Name) error {
	return s.ask(ctx, r, true)
}

// retry lets what is held of a server be subscribed to when it is ready the next time.
func (s *subscriptions) retry(server string) {
	s.late.Store(true)
	s.forget(server, math.MaxUint64)
}

// subscribeAllTimeout is the bound of a transport.
const subscribeAllTimeout = 5 * time.Second

// subscribeAll asks the client for all of them at once, and returns those that stand in time.
func (s *subscriptions) subscribeAll(ctx context.Context, wanted map[string]resource.Name) map[string]resource.Name {
	ctx, cancel := context.WithTimeout(ctx, s.bound)
	defer cancel()
	stand := make(map[string]resource.Name, len(wanted))
	var mu sync.Mutex // guards stand
	var all sync.WaitGroup
	for uri, r := range wanted {
		all.Go(func() {
			if s.subscribe(ctx, r) == nil {
				mu.Lock()
				defer mu.Unlock()
				stand[uri] = r
			}
		})
	}
	all.Wait()
	return stand
}

// subscribeAll asks for all of several at once, and returns those that stand in time.
func subscribeAll(ctx context.Context, at map[*subscriptions]map[string]resource.Name) map[string]resource.Name {
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

// release counts one session less. It does not wait for the server: ended is called when
// that has been told, if this was the last session.
func (s *subscriptions) release(r resource.Name, ended func()) {
	s.mu.Lock()
	s.sessions[r]--
	last := s.sessions[r] == 0
	if last {
		delete(s.sessions, r)
	}
	s.mu.Unlock()
	if !last {
		ended()
		return
	}
	go func() {
		defer ended()
		ctx, cancel := context.WithTimeout(context.Background(), unsubscribeTimeout)
		defer cancel()
		_ = s.ask(ctx, r, false) // it fails if the server or the client is gone
		s.mu.Lock()
		again := s.sessions[r] > 0
		s.mu.Unlock()
		if again { // a session has subscribed meanwhile, perhaps before the line above
			_ = s.ask(ctx, r, true)
		}
	}()
}
