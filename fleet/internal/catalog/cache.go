// Package catalog holds what the servers of a fleet offer, as package internal/encodedlists encodes it. The owner of a server writes
// the digest to the store. Other nodes get the bytes by the digest, and answer the lists of the server from them.
package catalog

import (
	"container/list"
	"context"
	"sync"

	"github.com/mcpvisor/mcpvisor/internal/encodedlists"
)

// Cache keeps bodies by their digests, those used last, up to a number of bytes. Of callers that
// want the same body of the same source at the same time, one fetches it. Safe for concurrent use.
type Cache struct {
	maxBytes int

	mu      sync.Mutex
	bytes   int                      // guarded by mu
	kept    map[string]*list.Element // guarded by mu
	recent  list.List                // of *encodedlists.Body, the last used first; guarded by mu
	flights map[flightKey]*flight    // guarded by mu
}

// flightKey names a fetch. Two sources do not share one: if the first hangs, the second may answer.
type flightKey struct{ source, digest string }

// flight is one fetch.
type flight struct {
	cancel  context.CancelFunc
	waiting int // guarded by the mutex of the cache
	done    chan struct{}
	body    *encodedlists.Body
	err     error
}

// NewCache returns an empty cache for maxBytes bytes of encoded bodies. A body that is longer is
// not kept.
func NewCache(maxBytes int) *Cache {
	return &Cache{maxBytes: maxBytes, kept: map[string]*list.Element{}, flights: map[flightKey]*flight{}}
}

// Get returns the body with a digest. If the cache has none, fetch gets its bytes from the source, which
// are checked. fetch has the values of the first caller's context; it ends when no caller waits any
// longer.
func (c *Cache) Get(ctx context.Context, source, digest string, fetch func(ctx context.Context) ([]byte, error)) (*encodedlists.Body, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	c.mu.Lock()
	if e := c.kept[digest]; e != nil {
		c.recent.MoveToFront(e)
		c.mu.Unlock()
		return e.Value.(*encodedlists.Body), nil
	}
	key := flightKey{source, digest}
	f := c.flights[key]
	if f == nil {
		fetching, cancel := context.WithCancel(context.WithoutCancel(ctx))
		f = &flight{cancel: cancel, done: make(chan struct{})}
		c.flights[key] = f
		go c.fly(fetching, f, key, fetch)
	}
	f.waiting++
	c.mu.Unlock()
	select {
	case <-f.done:
		return f.body, f.err
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.waiting--; f.waiting == 0 {
		f.cancel()
		if c.flights[key] == f { // a later caller fetches it again
			delete(c.flights, key)
		}
	}
	return nil, context.Cause(ctx)
}

func (c *Cache) fly(ctx context.Context, f *flight, key flightKey, fetch func(ctx context.Context) ([]byte, error)) {
	defer f.cancel()
	defer close(f.done)
	encoded, err := fetch(ctx)
	if err == nil {
		f.body, err = encodedlists.Decode(encoded, key.digest)
	}
	f.err = err
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flights[key] == f {
		delete(c.flights, key)
	}
	if err == nil {
		c.keep(f.body)
	}
}

// keep is called with the mutex held.
func (c *Cache) keep(b *encodedlists.Body) {
	if c.kept[b.Digest()] != nil || len(b.Encoded()) > c.maxBytes {
		return
	}
	c.kept[b.Digest()] = c.recent.PushFront(b)
	c.bytes += len(b.Encoded())
	for c.bytes > c.maxBytes {
		oldest := c.recent.Remove(c.recent.Back()).(*encodedlists.Body)
		delete(c.kept, oldest.Digest())
		c.bytes -= len(oldest.Encoded())
	}
}
