package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/fleet/internal/catalog"
	"github.com/mcpvisor/mcpvisor/fleet/internal/records"
	"github.com/mcpvisor/mcpvisor/fleet/store"
	"github.com/mcpvisor/mcpvisor/internal/encodedlists"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// catalogRecord is the record of the catalog of a server in the store. The owner has the catalog with
// this digest.
type catalogRecord struct {
	Epoch  uint64 `json:"epoch"` // of the placement whose server has listed it
	Digest string `json:"digest"`
}

// catalogKey is the key of a record, below records.CatalogPrefix.
func catalogKey(name string) string { return records.CatalogPrefix + name }

// cacheBytes bounds the catalogs of other nodes that are kept, beside those in use.
const cacheBytes = 64 << 20

// catalogs publish what the servers of this node offer, and follow what those of others do. Safe for
// concurrent use.
type catalogs struct {
	node  *Node
	cache *catalog.Cache

	mu    sync.Mutex
	own   map[string]*encodedlists.Body // of the servers here, by name; guarded by mu, as the fields below
	dirty map[string]bool               // servers whose catalogs are to be published
	wake  chan struct{}                 // has room for one
}

func newCatalogs(n *Node) *catalogs {
	return &catalogs{node: n, cache: catalog.NewCache(cacheBytes), own: map[string]*encodedlists.Body{},
		dirty: map[string]bool{}, wake: make(chan struct{}, 1)}
}

// body returns the encoded catalog of a server here, for another node.
func (c *catalogs) body(name, digest string) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.own[name]; b != nil && b.Digest() == digest {
		return b.Encoded(), nil
	}
	return nil, errors.New("this node has no such catalog of the server")
}

// markChanged notes that a server here may offer something else than before.
func (c *catalogs) markChanged(name string) {
	c.mu.Lock()
	c.dirty[name] = true
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// forget drops what was published of a server that has left this node.
func (c *catalogs) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.own, name)
	delete(c.dirty, name)
}

// publish writes the records of servers that have changed, until ctx ends.
func (c *catalogs) publish(ctx context.Context) {
	for {
		select {
		case <-c.wake:
		case <-ctx.Done():
			return
		}
		c.mu.Lock()
		dirty := c.dirty
		c.dirty = map[string]bool{}
		c.mu.Unlock()
		slots := make(chan struct{}, publishAtOnce)
		var work sync.WaitGroup
		for name := range dirty {
			slots <- struct{}{}
			work.Go(func() {
				defer func() { <-slots }()
				c.publishOne(ctx, name)
			})
		}
		work.Wait()
	}
}

const (
	// publishAtOnce is how many records are written at a time.
	publishAtOnce = 16
	// publishAgain is when a record that could not be written is tried again.
	publishAgain   = 500 * time.Millisecond
	publishTimeout = 2 * time.Second
)

func (c *catalogs) publishOne(ctx context.Context, name string) {
	l := c.node.routes.localOf(name)
	life := c.node.lifeNow()
	if l == nil || life == "" {
		return // the node that starts it says so again
	}
	record := catalogRecord{Epoch: l.epoch.Load()}
	status, ok := c.node.Client.ServerStatus(name)
	if !ok || status.State != supervisor.StateReady || status.Session == nil || status.Session.Node != c.node.id {
		return // it is published when it is ready
	}
	body, err := catalog.Of(relay.Of(c.node.Client), name)
	if err != nil {
		if !errors.Is(err, catalog.ErrNotReady) {
			c.node.log.Error().Err(err).Str("server", name).Msg("the catalog of the server cannot be published; other nodes do not list it")
		}
		return
	}
	record.Digest = body.Digest()
	c.mu.Lock()
	here := c.node.routes.localOf(name) == l // forget comes after it has left
	if here {
		c.own[name] = body
	}
	c.mu.Unlock()
	if _, seen, _ := c.node.routes.current(name); !here || seen == record {
		return
	}
	value, err := json.Marshal(record)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	result, err := c.node.store.Commit(ctx, store.Txn{
		If:   []store.Condition{store.Present(records.NodeKey(c.node.id, life)), store.Present(records.SpecKey(name))},
		Then: []store.Change{store.Put(catalogKey(name), value)},
	})
	if err != nil || !result.OK {
		time.AfterFunc(publishAgain, func() { c.markChanged(name) })
		return
	}
}

// watchEvents publishes when a server here becomes ready or changes its lists, until ctx ends.
func (c *catalogs) watchEvents(ctx context.Context) {
	for e := range c.node.Client.Watch(ctx, mcpvisor.EventReady, mcpvisor.EventChanged, mcpvisor.EventMissed) {
		if e.Kind != mcpvisor.EventMissed {
			c.markChanged(e.Server)
			continue
		}
		for _, name := range c.node.Client.Servers() {
			c.markChanged(name)
		}
	}
}

// follow keeps the records of all catalogs in the routes, until ctx ends.
func (c *catalogs) follow(ctx context.Context) {
	for after := int64(0); ctx.Err() == nil; {
		err := c.followFrom(ctx, &after)
		if errors.Is(err, store.ErrClosed) {
			return
		}
		if errors.Is(err, store.ErrCompacted) {
			after = 0
		}
		select {
		case <-time.After(publishAgain):
		case <-ctx.Done():
		}
	}
}

func (c *catalogs) followFrom(ctx context.Context, after *int64) error {
	return followPrefix(ctx, c.node.store, records.CatalogPrefix, after, func(e store.Event) bool {
		c.take(e)
		return true
	})
}

// followPrefix calls more for each change below a prefix of the store since revision after, and keeps after up to date. If
// after is 0, it first calls more for each pair that is there. It returns when more returns false, the store fails, or ctx
// ends.
func followPrefix(ctx context.Context, s store.Store, prefix string, after *int64, more func(store.Event) bool) error {
	if *after == 0 {
		reading, cancel := context.WithTimeout(ctx, readTimeout)
		snapshot, err := s.Read(reading, prefix)
		cancel()
		if err != nil {
			return err
		}
		for _, pair := range snapshot.Pairs {
			if !more(store.Event{Pair: pair}) {
				return nil
			}
		}
		*after = snapshot.Revision
	}
	w := s.Watch(ctx, prefix, *after)
	defer w.Close()
	for {
		waiting, cancel := context.WithTimeout(ctx, staleAfter) // a connection that is lost may only be silent
		batch, err := w.Next(waiting)
		cancel()
		if err != nil {
			return err
		}
		for _, e := range batch.Events {
			if !more(e) {
				return nil
			}
		}
		*after = batch.Revision
	}
}

// take brings one record to the routes. One that cannot be read changes nothing.
func (c *catalogs) take(e store.Event) {
	name, ok := strings.CutPrefix(e.Pair.Key, records.CatalogPrefix)
	var record catalogRecord
	if !ok || !e.Removed && json.Unmarshal(e.Pair.Value, &record) != nil {
		return
	}
	c.node.routes.setRecord(name, record)
	if l := c.node.routes.localOf(name); l != nil && (e.Removed || record.Epoch < l.epoch.Load()) {
		c.markChanged(name) // a former owner has written late
	}
}
