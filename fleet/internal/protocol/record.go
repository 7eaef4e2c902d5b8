package protocol

import (
	"strconv"

	"github.com/mcpvisor/mcpvisor/fleet/internal/records"
	"github.com/mcpvisor/mcpvisor/fleet/placement"
	"github.com/mcpvisor/mcpvisor/fleet/store"
)

// lifeOf names the life of a lease.
func lifeOf(lease store.Lease) string { return strconv.FormatInt(int64(lease), 16) }

// claim is the transaction by which a life takes a name.
func claim(name string, known placement.Place, rest records.Rest, revision int64, node, life string) store.Txn {
	txn := store.Txn{
		If: []store.Condition{store.Unchanged(records.PlaceKey(name), revision), store.Present(records.NodeKey(node, life))},
		Then: []store.Change{store.Put(records.PlaceKey(name), records.Encode(placement.Place{
			Node: node, Life: life, Epoch: known.Epoch + 1,
		}, rest))},
	}
	if revision != 0 && !known.Released {
		txn.If = append(txn.If, store.Absent(records.NodeKey(known.Node, known.Life)))
	}
	return txn
}

// release is the transaction by which a life gives a name back.
func release(name string, known placement.Place, rest records.Rest, revision int64) store.Txn {
	known.Released = true
	return store.Txn{
		If:   []store.Condition{store.Unchanged(records.PlaceKey(name), revision)},
		Then: []store.Change{store.Put(records.PlaceKey(name), records.Encode(known, rest))},
	}
}
