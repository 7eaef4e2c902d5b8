package records

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor/fleet/placement"
	"github.com/mcpvisor/mcpvisor/fleet/store"
)

// ErrConflict: another configuration was applied at the same time. What was applied by this one may
// be replaced.
var ErrConflict = errors.New("another configuration was applied at the same time; apply it again if it is the one that is wanted")

// ServerRecord is one server of a configuration.
type ServerRecord struct {
	Name string
	placement.Spec
	Definition json.RawMessage
}

// NoGateway is the definition that removes the record of the gateway.
var NoGateway = json.RawMessage("null")

const (
	// mostChanges are how many changes a transaction has; etcd allows 128, by default.
	mostChanges = 100
	// mostBytes are how many bytes its values have, roughly; etcd allows 1.5 MiB, by default.
	mostBytes = 1 << 20
	maxName   = 256
	// maxTotal bounds all definitions together: a node reads them at once when it joins.
	maxTotal = 64 << 20
)

// Apply makes servers the servers of the fleet, and gateway the definition of its gateways: nil
// leaves that as it is, and [NoGateway] removes it. It returns the generation of the configuration.
// Records that are already as wanted are not written. If all are, the generation stays as it was.
//
// A large configuration takes several transactions: first the gateway and what is removed, then what
// is changed or added. So no server is offered before the gateways know its configuration. Between
// the transactions, nodes see servers of both configurations, and [Generation.Next] is set. Each
// transaction holds only if no other client has applied something since the one before, so that two
// configurations never mix; the later one that begins wins, and the other gets [ErrConflict].
// After any other error, or a crash, the configuration may be applied partly. Apply, with the same
// or another configuration, completes it.
//
// A server must not become exclusive, or stop being so, under its name: a node that is cut off
// still runs it as it was. Apply refuses that before it writes anything. It also refuses to change a
// record that it cannot read, but removes one of a server that is not in the configuration.
func Apply(ctx context.Context, s store.Store, servers []ServerRecord, gateway json.RawMessage) (generation uint64, err error) {
	wanted, gateway, err := check(servers, gateway)
	if err != nil {
		return 0, err
	}
	// Read in this order: if another client applies something between, the first transaction fails.
	before, revision, err := readGeneration(ctx, s)
	if err != nil {
		return 0, err
	}
	snapshot, err := s.Read(ctx, SpecPrefix)
	if err != nil {
		return 0, err
	}
	next := max(before.Applied, before.Next) + 1
	changes, err := gatewayChange(ctx, s, gateway, next)
	if err != nil {
		return 0, err
	}
	more, err := difference(snapshot.Pairs, wanted, next)
	if err != nil {
		return 0, err
	}
	changes = append(changes, more...)
	if len(changes) == 0 {
		if before.Next == 0 {
			return before.Applied, nil
		}
		next = before.Next // the last transaction of another client is missing
	}
	for done := false; !done; {
		part := changes[:partOf(changes)]
		changes = changes[len(part):]
		done = len(changes) == 0
		record := Generation{Applied: before.Applied, Next: next}
		if done {
			record = Generation{Applied: next}
		}
		result, err := s.Commit(ctx, store.Txn{
			If:   []store.Condition{store.Unchanged(GenerationKey, revision)},
			Then: append(slices.Clone(part), store.Put(GenerationKey, Encode(record, nil))),
		})
		if err != nil {
			return 0, fmt.Errorf("the configuration may be applied partly; apply it again: %w", err)
		}
		if !result.OK {
			return 0, ErrConflict
		}
		revision = result.Revision
	}
	return next, nil
}

// check returns the servers by name, and the definition of the gateway without spaces.
func check(servers []ServerRecord, gateway json.RawMessage) (map[string]ServerRecord, json.RawMessage, error) {
	wanted, total := make(map[string]ServerRecord, len(servers)), 0
	for _, server := range servers {
		switch _, twice := wanted[server.Name]; {
		case server.Name == "" || len(server.Name) > maxName || strings.Contains(server.Name, "/"):
			return nil, nil, fmt.Errorf("server %.40q: a name has 1 to %d bytes and no slash", server.Name, maxName)
		case twice:
			return nil, nil, fmt.Errorf("server %q is defined twice", server.Name)
		}
		var err error
		if server.Definition, err = compact(server.Definition); err != nil {
			return nil, nil, fmt.Errorf("server %q: %w", server.Name, err)
		}
		wanted[server.Name] = server
		if total += len(server.Definition); total > maxTotal {
			return nil, nil, fmt.Errorf("the definitions of all servers have more than %d bytes", maxTotal)
		}
	}
	gateway, err := compact(gateway)
	if err != nil {
		return nil, nil, fmt.Errorf("the gateway: %w", err)
	}
	return wanted, gateway, nil
}

// compact returns a definition without spaces between its parts.
func compact(definition json.RawMessage) (json.RawMessage, error) {
	if definition == nil {
		return nil, nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, definition); err != nil {
		return nil, fmt.Errorf("its definition is not valid JSON: %w", err)
	}
	if b.Len() > MaxDefinitionBytes {
		return nil, fmt.Errorf("its definition has %d bytes, and %d are allowed", b.Len(), MaxDefinitionBytes)
	}
	return b.Bytes(), nil
}

// gatewayChange returns the change that gives the gateways a definition, if it differs from what they have.
// A record that it cannot read is not replaced, but may be removed.
func gatewayChange(ctx context.Context, s store.Store, definition json.RawMessage, next uint64) (changes []store.Change, err error) {
	if definition == nil {
		return nil, nil
	}
	pair, exists, err := get(ctx, s, GatewayKey)
	switch {
	case err != nil:
		return nil, err
	case bytes.Equal(definition, NoGateway) && !exists:
		return nil, nil
	case bytes.Equal(definition, NoGateway):
		return []store.Change{store.Remove(GatewayKey)}, nil
	}
	var rest Rest
	if exists {
		known, others, err := Decode[Gateway](pair.Value)
		if err != nil {
			return nil, fmt.Errorf("the gateway cannot be changed: %w", err)
		}
		if rest = others; bytes.Equal(known.Definition, definition) {
			return nil, nil
		}
	}
	return []store.Change{store.Put(GatewayKey, Encode(Gateway{Definition: definition, Generation: next}, rest))}, nil
}

func readGeneration(ctx context.Context, s store.Store) (record Generation, revision int64, err error) {
	pair, exists, err := get(ctx, s, GenerationKey)
	if err != nil || !exists {
		return record, 0, err
	}
	if record, _, err = Decode[Generation](pair.Value); err != nil {
		return record, 0, fmt.Errorf("the record %s of the store: %w", pair.Key, err)
	}
	return record, pair.Revision, nil
}

// get reads one key: a transaction that changes nothing returns it if it exists. [store.Store.Read]
// would also return the keys that begin with it.
func get(ctx context.Context, s store.Store, key string) (pair store.Pair, exists bool, err error) {
	result, err := s.Commit(ctx, store.Txn{If: []store.Condition{store.Absent(key)}})
	if err != nil || result.OK {
		return store.Pair{}, false, err
	}
	return result.Current[0], true, nil
}

// difference returns the changes that make the pairs what is wanted: removals first, each sorted by
// name.
func difference(pairs []store.Pair, wanted map[string]ServerRecord, next uint64) (changes []store.Change, err error) {
	current := map[string][]byte{}
	for _, pair := range pairs {
		name := strings.TrimPrefix(pair.Key, SpecPrefix)
		if current[name] = pair.Value; !has(wanted, name) {
			changes = append(changes, store.Remove(pair.Key), store.Remove(CatalogPrefix+name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		server := wanted[name]
		record := Spec{Spec: server.Spec, Definition: server.Definition, Generation: next}
		if size := len(Encode(record, nil)); size > maxRecordBytes {
			return nil, fmt.Errorf("server %q: its record has %d bytes, and %d are allowed", name, size, maxRecordBytes)
		}
		value, exists := current[name]
		if !exists {
			changes = append(changes, store.Put(SpecKey(name), Encode(record, nil)))
			continue
		}
		known, rest, err := Decode[Spec](value)
		if err != nil {
			return nil, fmt.Errorf("server %q cannot be changed: %w", name, err)
		}
		if known.Exclusive != record.Exclusive {
			return nil, fmt.Errorf("server %q: exclusive must not change from %t to %t under one name, because a node that is cut off still runs it as it was; remove it, and add it under another name",
				name, known.Exclusive, record.Exclusive)
		}
		same := record
		same.Generation = known.Generation
		if !bytes.Equal(Encode(same, nil), Encode(known, nil)) {
			changes = append(changes, store.Put(SpecKey(name), Encode(record, rest)))
		}
	}
	return changes, nil
}

func has(wanted map[string]ServerRecord, name string) bool { _, ok := wanted[name]; return ok }

// partOf is how many of the changes go into the next transaction.
func partOf(changes []store.Change) int {
	size := 0
	for i, change := range changes {
		size += len(change.Key) + len(change.Value)
		if i == mostChanges || i > 0 && size > mostBytes {
			return i
		}
	}
	return len(changes)
}
