package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/mcpvisor/mcpvisor"
)

// record is the head of an entry on disk. A record on disk is
//
//	CRC-32C of the rest   4 bytes, little endian
//	Updated               8 bytes, little endian: nanoseconds since 1970
//	length of the head    uvarint
//	head                  JSON
//	length of Arguments   uvarint
//	Arguments, Result     JSON, as they are
//
// The database does not check what is in its pages, so the checksum does.
type record struct {
	mcpvisor.JournalEntry
	TaskID string `json:"taskId,omitempty"` // JournalEntry leaves it out
}

// encodeKey returns the name of an entry in the database: the length of the principal (uvarint), the
// principal, and the key.
func encodeKey(key mcpvisor.JournalKey) []byte {
	b := binary.AppendUvarint(make([]byte, 0, binary.MaxVarintLen64+len(key.Principal)+len(key.Key)), uint64(len(key.Principal)))
	return append(append(b, key.Principal...), key.Key...)
}

// decodeKey returns the key of the name of an entry.
func decodeKey(name []byte) mcpvisor.JournalKey {
	principal, key, _ := cut(name)
	return mcpvisor.JournalKey{Principal: string(principal), Key: string(key)}
}

// prefixBytes is the length of what is before the head.
const prefixBytes = 4 + 8

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode returns the record of an entry.
func encode(e mcpvisor.JournalEntry) ([]byte, error) {
	arguments, result := e.Arguments, e.Result
	e.Arguments, e.Result, e.Open = nil, nil, false
	head, err := json.Marshal(record{e, e.TaskID})
	if err != nil {
		return nil, fmt.Errorf("encode the entry %q: %w", e.Key, err)
	}
	b := make([]byte, prefixBytes, prefixBytes+2*binary.MaxVarintLen64+len(head)+len(arguments)+len(result))
	b = append(binary.AppendUvarint(b, uint64(len(head))), head...)
	b = append(binary.AppendUvarint(b, uint64(len(arguments))), arguments...)
	b = append(b, result...)
	setUpdated(b, e.Updated)
	return b, nil
}

// setUpdated sets when a record was written.
func setUpdated(b []byte, at time.Time) {
	binary.LittleEndian.PutUint64(b[4:], uint64(at.UnixNano()))
	binary.LittleEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
}

// errRecord is the cause of a record that was changed on disk.
var errRecord = errors.New("its checksum is wrong")

// decode reads the record of a key. The entry has its own memory.
func decode(key, b []byte) (mcpvisor.JournalEntry, error) {
	if len(b) < prefixBytes || binary.LittleEndian.Uint32(b) != crc32.Checksum(b[4:], castagnoli) {
		return mcpvisor.JournalEntry{}, damagedEntry(key, errRecord)
	}
	head, rest, ok := cut(b[prefixBytes:])
	var r record
	if !ok {
		return mcpvisor.JournalEntry{}, damagedEntry(key, errRecord)
	}
	if err := json.Unmarshal(head, &r); err != nil {
		return mcpvisor.JournalEntry{}, damagedEntry(key, err)
	}
	arguments, result, ok := cut(rest)
	if !ok || !bytes.Equal(encodeKey(r.JournalKey()), key) {
		return mcpvisor.JournalEntry{}, damagedEntry(key, errRecord)
	}
	e := r.JournalEntry
	e.TaskID = r.TaskID
	if at := updatedOf(b); !at.Equal(e.Updated) { // setUpdated has set it
		e.Updated = at
	}
	e.Arguments, e.Result = append(e.Arguments, arguments...), append(e.Result, result...)
	return e, nil
}

// cut splits off a field that begins with its length.
func cut(b []byte) (field, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return nil, nil, false
	}
	return b[size : size+int(n)], b[size+int(n):], true
}

func damagedEntry(key []byte, err error) error {
	return fmt.Errorf("%w: the entry of the key %.256q: %w", ErrDamaged, decodeKey(key).Key, err)
}

// updatedOf is when a record was written, which decode has read before.
func updatedOf(b []byte) time.Time {
	return time.Unix(0, int64(binary.LittleEndian.Uint64(b[4:])))
}
