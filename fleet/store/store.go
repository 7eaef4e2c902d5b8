// Package store is not part of the stable API. It has what a fleet needs of its engine: leases,
// transactions, and watches by revision.
//
// A fleet keeps in a [Store] which nodes and servers there are, and where each server runs.
// Package memory of this folder is a store in this process, for one node and for tests; package
// etcd is the store of a fleet. Both pass the same tests.
//
// # Revisions
//
// Each transaction that changes something, and each lease that ends with keys, raises the
// revision of the whole store by one. A [Pair] has the revision that last changed it. So a
// snapshot and the events after its revision together are the state, without a gap.
//
// # What an error means
//
// A [Store.Commit] that returns an error other than [ErrLeaseGone] has an unknown outcome: it was
// carried out, will be, or never will be. The caller finds out by reading. Its conditions must
// therefore make a late commit harmless.
package store

import (
	"context"
	"errors"
	"time"
)

// ErrLeaseGone: the lease has ended or was never granted. Nothing was changed.
var ErrLeaseGone = errors.New("the lease is gone")

// ErrCompacted: events after the revision that a watch was to start from are no longer kept.
// Read again, and watch from the revision of that snapshot.
var ErrCompacted = errors.New("the store no longer keeps the events after this revision; read again")

// ErrClosed: the store was closed.
var ErrClosed = errors.New("the store is closed")

// Store is a key-value store with leases. It is safe for concurrent use. Every call ends with its
// context, also while the store is away.
type Store interface {
	// Grant makes a lease that ends ttl after the store has received the call, or later, but not
	// before. Its number was never given to another lease of the store.
	Grant(ctx context.Context, ttl time.Duration) (Lease, error)

	// Renew lets the lease end its ttl after the store has received the call, or later, but not
	// before. It returns [ErrLeaseGone] if the lease has ended. Renewals share no connection with
	// other calls, so that these cannot delay them.
	Renew(ctx context.Context, lease Lease) error

	// Revoke ends the lease and removes its keys. A lease that is gone is no error.
	Revoke(ctx context.Context, lease Lease) error

	// Read returns all pairs whose key begins with prefix, sorted by key, as they were at the
	// revision of the snapshot. It sees everything that was committed before it was called.
	Read(ctx context.Context, prefix string) (Snapshot, error)

	// Commit carries out all changes of the transaction if all its conditions hold, and none
	// otherwise. See the package comment for what an error means.
	Commit(ctx context.Context, txn Txn) (Result, error)

	// Watch returns what changes below prefix after the revision. It returns at once, and does not wait for
	// the store: errors come from [Watcher.Next]. The watch ends with ctx, too.
	Watch(ctx context.Context, prefix string, after int64) Watcher

	// Close ends watches and connections, and does not wait for the store either. Leases are not revoked.
	Close() error
}

// Watcher yields the events of one watch in order, each once. It is used by one goroutine.
type Watcher interface {
	// Next waits for the next batch. An error of the context leaves the watcher as it is. Every
	// other error ends it: [ErrCompacted], [ErrClosed], or a connection that was lost, after which
	// the caller watches again from the revision of the last batch. No event is left out silently.
	Next(ctx context.Context) (Batch, error)

	// Close gives the watch back. It may be called twice.
	Close()
}

// Lease is the number of a lease. 0 is no lease.
type Lease int64

// Pair is a key with its value.
type Pair struct {
	Key      string
	Value    []byte
	Revision int64 // that last changed the key
	Lease    Lease // whose end removes the key; 0 for none
}

// Snapshot is a part of the store at one revision.
type Snapshot struct {
	Revision int64
	Pairs    []Pair
}

// Event is the change of one key.
type Event struct {
	Pair    Pair // without value and lease if the key was removed
	Removed bool
}

// Batch has all events of one or more revisions, in order. The next batch
// begins after its revision. A batch without events says that nothing has changed up to its
// revision.
type Batch struct {
	Revision int64
	Events   []Event
}

// Condition is about one key.
type Condition struct {
	Key string
	// Exists: the key must exist, whatever its revision.
	Exists bool
	// Revision that last changed the key, if Exists is false. 0: the key must not exist.
	Revision int64
}

// Present is the condition that a key exists.
func Present(key string) Condition { return Condition{Key: key, Exists: true} }

// Absent is the condition that a key does not exist.
func Absent(key string) Condition { return Condition{Key: key} }

// Unchanged is the condition that a key was last changed by a revision; 0: that it does not exist.
func Unchanged(key string, revision int64) Condition { return Condition{Key: key, Revision: revision} }

// Change puts or removes one key.
type Change struct {
	Key    string
	Value  []byte
	Lease  Lease // whose end removes the key; 0 for none
	Remove bool
}

// Put sets the value of a key that no lease holds.
func Put(key string, value []byte) Change { return Change{Key: key, Value: value} }

// PutLeased sets the value of a key that goes with the lease.
func PutLeased(key string, value []byte, lease Lease) Change {
	return Change{Key: key, Value: value, Lease: lease}
}

// Remove removes a key, if it exists.
func Remove(key string) Change { return Change{Key: key, Remove: true} }

// Txn is a transaction. Each key occurs in one change at most.
type Txn struct {
	If   []Condition
	Then []Change
}

// Result is the outcome of a transaction.
type Result struct {
	OK       bool  // the conditions held
	Revision int64 // of the store after the transaction
	// Current are the keys of the conditions that exist, if these did not hold.
	Current []Pair
}
