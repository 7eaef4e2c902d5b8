// Package kv is a store of a fleet as a plain data structure: keys with revisions, leases, and a
// log of events. It has no lock, reads no clock and starts no goroutine, so that a simulation can
// drive it. Package memory makes a store of it.
package kv

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/fleet/store"
)

// Engine is the state of the store. The zero value is not usable; see [New].
type Engine struct {
	revision  int64
	pairs     map[string]store.Pair
	leases    map[store.Lease]*lease
	lastLease store.Lease

	// log has the events after compacted, in the order of their revisions.
	log       []store.Event
	compacted int64
}

type lease struct {
	ttl     time.Duration
	expires time.Duration
	keys    map[string]bool
}

// New makes an empty engine. As in etcd, the first revision is 1 and nothing has it.
func New() *Engine {
	return &Engine{revision: 1, pairs: map[string]store.Pair{}, leases: map[store.Lease]*lease{}}
}

// Revision is that of the last change.
func (e *Engine) Revision() int64 { return e.revision }

// Grant makes a lease at time now.
func (e *Engine) Grant(now, ttl time.Duration) store.Lease {
	e.lastLease++
	e.leases[e.lastLease] = &lease{ttl: ttl, expires: now + ttl, keys: map[string]bool{}}
	return e.lastLease
}

// Renew lets a lease end its ttl after now. It reports whether the lease exists.
func (e *Engine) Renew(now time.Duration, id store.Lease) bool {
	l := e.leases[id]
	if l != nil {
		l.expires = now + l.ttl
	}
	return l != nil
}

// RenewAll renews every lease, as a new leader of etcd does.
func (e *Engine) RenewAll(now time.Duration) {
	for _, l := range e.leases {
		l.expires = now + l.ttl
	}
}

// Revoke ends a lease, if it exists, and removes its keys in one revision.
func (e *Engine) Revoke(id store.Lease) {
	l := e.leases[id]
	if l == nil {
		return
	}
	delete(e.leases, id)
	if len(l.keys) == 0 {
		return
	}
	e.revision++
	keys := make([]string, 0, len(l.keys))
	for key := range l.keys {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	for _, key := range keys {
		e.remove(key)
	}
}

// Expire ends the leases whose time is over.
func (e *Engine) Expire(now time.Duration) {
	var over []store.Lease
	for id, l := range e.leases {
		if l.expires <= now {
			over = append(over, id)
		}
	}
	slices.Sort(over)
	for _, id := range over {
		e.Revoke(id)
	}
}

// NextExpiry is when the next lease ends; ok is false without a lease.
func (e *Engine) NextExpiry() (at time.Duration, ok bool) {
	for _, l := range e.leases {
		if !ok || l.expires < at {
			at, ok = l.expires, true
		}
	}
	return at, ok
}

// Read returns the pairs whose key begins with prefix.
func (e *Engine) Read(prefix string) store.Snapshot {
	s := store.Snapshot{Revision: e.revision}
	for key, pair := range e.pairs {
		if strings.HasPrefix(key, prefix) {
			s.Pairs = append(s.Pairs, pair)
		}
	}
	slices.SortFunc(s.Pairs, func(a, b store.Pair) int { return strings.Compare(a.Key, b.Key) })
	return s
}

// Commit carries out a transaction.
func (e *Engine) Commit(txn store.Txn) (store.Result, error) {
	for i, change := range txn.Then {
		if slices.ContainsFunc(txn.Then[:i], func(c store.Change) bool { return c.Key == change.Key }) {
			return store.Result{}, fmt.Errorf("the transaction changes key %q twice", change.Key)
		}
	}
	for _, c := range txn.If {
		pair, exists := e.pairs[c.Key]
		if c.Exists != exists && c.Exists || !c.Exists && pair.Revision != c.Revision {
			return store.Result{Revision: e.revision, Current: e.current(txn.If)}, nil
		}
	}
	changes := false
	for _, change := range txn.Then {
		if change.Lease != 0 && e.leases[change.Lease] == nil {
			return store.Result{}, store.ErrLeaseGone
		}
		_, exists := e.pairs[change.Key]
		changes = changes || exists || !change.Remove
	}
	if changes {
		e.revision++
	}
	for _, change := range txn.Then {
		if change.Remove {
			e.remove(change.Key)
		} else {
			e.put(change)
		}
	}
	return store.Result{OK: true, Revision: e.revision}, nil
}

func (e *Engine) current(conditions []store.Condition) (pairs []store.Pair) {
	for _, c := range conditions {
		if pair, exists := e.pairs[c.Key]; exists {
			pairs = append(pairs, pair)
		}
	}
	return pairs
}

func (e *Engine) put(change store.Change) {
	e.detach(change.Key)
	pair := store.Pair{Key: change.Key, Value: slices.Clone(change.Value), Revision: e.revision, Lease: change.Lease}
	e.pairs[change.Key] = pair
	if change.Lease != 0 {
		e.leases[change.Lease].keys[change.Key] = true
	}
	e.log = append(e.log, store.Event{Pair: pair})
}

func (e *Engine) remove(key string) {
	if _, exists := e.pairs[key]; !exists {
		return
	}
	e.detach(key)
	delete(e.pairs, key)
	e.log = append(e.log, store.Event{Pair: store.Pair{Key: key, Revision: e.revision}, Removed: true})
}

// detach takes the key from the lease that holds it.
func (e *Engine) detach(key string) {
	if l := e.leases[e.pairs[key].Lease]; l != nil {
		delete(l.keys, key)
	}
}

// Since returns the events after a revision of the keys that begin with prefix, or
// [store.ErrCompacted].
func (e *Engine) Since(prefix string, after int64) (store.Batch, error) {
	if after < e.compacted {
		return store.Batch{}, store.ErrCompacted
	}
	batch := store.Batch{Revision: max(after, e.revision)}
	first := sort.Search(len(e.log), func(i int) bool { return e.log[i].Pair.Revision > after })
	for _, event := range e.log[first:] {
		if strings.HasPrefix(event.Pair.Key, prefix) {
			batch.Events = append(batch.Events, event)
		}
	}
	return batch, nil
}

// Compact forgets the events up to a revision, itself included.
func (e *Engine) Compact(revision int64) {
	revision = min(revision, e.revision)
	if revision <= e.compacted {
		return
	}
	first := sort.Search(len(e.log), func(i int) bool { return e.log[i].Pair.Revision > revision })
	e.log = slices.Clone(e.log[first:])
	e.compacted = revision
}
