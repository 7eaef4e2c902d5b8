package protocol

import (
	"encoding/json"
	"strconv"

	"github.com/mcpvisor/mcpvisor/fleet/placement"
	"github.com/mcpvisor/mcpvisor/fleet/store"
)

// The keys, below the prefix that the store was given:
//
//	nodes/<id>/<life>  a node with a living lease; goes with the lease
//	spec/<name>        a server of the fleet
//	place/<name>       who runs it; never removed, so that epochs only grow
const (
	nodesPrefix = "nodes/"
	specPrefix  = "spec/"
	placePrefix = "place/"
)

// NodeKey is the key of a life.
func NodeKey(id, life string) string { return nodesPrefix + id + "/" + life }

// SpecKey is the key of a server's specification.
func SpecKey(name string) string { return specPrefix + name }

// PlaceKey is the key of a place.
func PlaceKey(name string) string { return placePrefix + name }

// lifeOf names the life of a lease.
func lifeOf(lease store.Lease) string { return strconv.FormatInt(int64(lease), 16) }

// Encode returns the value of a record.
func Encode[R placement.Node | placement.Spec | placement.Place](record R) []byte {
	value, err := json.Marshal(record)
	if err != nil {
		panic("protocol: " + err.Error()) // numbers that JSON does not have are refused by validation
	}
	return value
}

// claim is the transaction by which a life takes a name.
func claim(name string, known placement.Place, revision int64, node, life string) store.Txn {
	txn := store.Txn{
		If: []store.Condition{store.Unchanged(PlaceKey(name), revision), store.Present(NodeKey(node, life))},
		Then: []store.Change{store.Put(PlaceKey(name), Encode(placement.Place{
			Node: node, Life: life, Epoch: known.Epoch + 1,
		}))},
	}
	if revision != 0 && !known.Released {
		txn.If = append(txn.If, store.Absent(NodeKey(known.Node, known.Life)))
	}
	return txn
}

// release is the transaction by which a life gives a name back.
func release(name string, known placement.Place, revision int64) store.Txn {
	known.Released = true
	return store.Txn{
		If:   []store.Condition{store.Unchanged(PlaceKey(name), revision)},
		Then: []store.Change{store.Put(PlaceKey(name), Encode(known))},
	}
}
