// Package records has the records that a fleet keeps in its store, their keys and values, and
// applies configurations.
//
// # Versions
//
// A value is a JSON object with the version "v". A reader that does not know the version does not
// read the record: it counts it, and keeps what it knew before. Fields that are added without a
// change of the version are those that a reader may ignore. It keeps them ([Rest]) when it writes
// the record again, so that a node of an older program does not undo what a newer one has written.
package records

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/mcpvisor/mcpvisor/fleet/placement"
)

// Version is that of the records that this program reads and writes.
const Version = 1

// The keys, below the prefix that the store was given:
//
//	nodes/<id>/<life>  a node with a living lease; ends with the lease
//	spec/<name>        a server of the fleet
//	place/<name>       who runs it; never removed, so that epochs only grow
//	move/<name>        which node is to take it; ends with a lease that is not renewed
//	gateway            what the gateways of all nodes offer; may be missing
//	generation         which configuration was applied last
//	catalog/<name>     the digest of what the server lists; removed with spec/<name>
const (
	NodesPrefix   = "nodes/"
	SpecPrefix    = "spec/"
	PlacePrefix   = "place/"
	MovePrefix    = "move/"
	GatewayKey    = "gateway"
	GenerationKey = "generation"
	CatalogPrefix = "catalog/"
)

// NodeKey is the key of a life.
func NodeKey(id, life string) string { return NodesPrefix + id + "/" + life }

// SpecKey is the key of a server's specification.
func SpecKey(name string) string { return SpecPrefix + name }

// PlaceKey is the key of a place.
func PlaceKey(name string) string { return PlacePrefix + name }

// MoveKey is the key of a move.
func MoveKey(name string) string { return MovePrefix + name }

// SplitNodeKey returns the parts of a key that [NodeKey] has made.
func SplitNodeKey(key string) (id, life string, ok bool) {
	rest, ok := strings.CutPrefix(key, NodesPrefix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "/")
}

// Spec is a server of the fleet: what placement needs, and what the node that runs it needs.
type Spec struct {
	placement.Spec
	// Definition is the JSON of the server, at most MaxDefinitionBytes. This package does not look
	// into it.
	Definition json.RawMessage `json:"definition,omitempty"`
	// Generation of the configuration that last changed the record.
	Generation uint64 `json:"generation,omitempty"`
}

// Equal reports whether the records are the same.
func (s Spec) Equal(other Spec) bool {
	return s.Spec.Equal(other.Spec) && s.Generation == other.Generation && bytes.Equal(s.Definition, other.Definition)
}

// MaxDefinitionBytes bounds [Spec.Definition] and [Gateway.Definition], without spaces between its parts.
const MaxDefinitionBytes = 256 << 10

// maxRecordBytes bounds every record; nothing larger is read.
const maxRecordBytes = MaxDefinitionBytes + 256<<10

// Gateway is the record of what the gateways of all nodes offer.
type Gateway struct {
	// Definition is JSON, at most MaxDefinitionBytes. This package does not look into it.
	Definition json.RawMessage `json:"definition"`
	// Generation of the configuration that last changed the record.
	Generation uint64 `json:"generation,omitempty"`
}

// Generation says which configuration was applied last.
type Generation struct {
	// Applied counts the configurations that were applied completely.
	Applied uint64 `json:"applied"`
	// Next is the configuration that is being applied, or was left half applied; 0: none is.
	Next uint64 `json:"next,omitempty"`
}

// Move says which node is to take a name. See [RequestMove].
type Move struct {
	Node string `json:"node"` // its id
}

// Record is any record of the store.
type Record interface {
	placement.Node | placement.Place | Spec | Gateway | Generation | Move
}

// Rest has the fields of a record that this program does not know; nil if there are none. Only
// fields of the outermost object are kept.
type Rest map[string]json.RawMessage

// Encode returns the value of a record, with the fields that were found in its former value.
func Encode[R Record](record R, rest Rest) []byte {
	value := marshal(record)
	if value = append([]byte(head), value[1:]...); len(value) == len(head)+1 {
		value = []byte(head[:len(head)-1] + "}")
	}
	if len(rest) == 0 {
		return value
	}
	fields := map[string]json.RawMessage{}
	for name, field := range rest {
		fields[name] = field
	}
	if json.Unmarshal(value, &fields) != nil { // over those of rest
		panic("records: a record is no object")
	}
	return marshal(fields)
}

// marshal writes a definition as it is: package json would write 6 bytes for each "<" of it.
func marshal(v any) []byte {
	var value bytes.Buffer
	encoder := json.NewEncoder(&value)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic("records: " + err.Error()) // definitions and numbers are validated before
	}
	return bytes.TrimSuffix(value.Bytes(), []byte("\n"))
}

// head is how values begin that were written without unknown fields.
var head = fmt.Sprintf(`{"v":%d,`, Version)

// Decode reads a value. A record of another version is an error.
func Decode[R Record](value []byte) (record R, rest Rest, err error) {
	if len(value) > maxRecordBytes {
		return record, nil, fmt.Errorf("a record of %d bytes is larger than %d bytes", len(value), maxRecordBytes)
	}
	if bytes.HasPrefix(value, []byte(head)) { // nearly always: the version and known fields only
		fields := append([]byte{'{'}, value[len(head):]...)
		decoder := json.NewDecoder(bytes.NewReader(fields))
		decoder.DisallowUnknownFields()
		if decoder.Decode(&record) == nil && decoder.InputOffset() == int64(len(fields)) {
			return record, nil, nil
		}
	}
	var zero R
	if err := json.Unmarshal(value, &rest); err != nil {
		return zero, nil, err
	}
	var version int
	if field, ok := rest["v"]; !ok {
		return zero, nil, fmt.Errorf("the record has no version")
	} else if err := json.Unmarshal(field, &version); err != nil {
		return zero, nil, fmt.Errorf("the version of the record is %.40q", field)
	}
	if version != Version {
		return zero, nil, fmt.Errorf("the record has version %d, and this program knows version %d only", version, Version)
	}
	record = zero
	if err := json.Unmarshal(value, &record); err != nil {
		return zero, nil, err
	}
	delete(rest, "v")
	for _, known := range fieldNames(reflect.TypeFor[R]()) {
		delete(rest, known)
	}
	if len(rest) == 0 {
		rest = nil
	}
	return record, rest, nil
}

// fieldNames are the names of a record's fields in JSON.
func fieldNames(record reflect.Type) (names []string) {
	for i := range record.NumField() {
		if field := record.Field(i); field.Anonymous {
			names = append(names, fieldNames(field.Type)...)
		} else {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}
