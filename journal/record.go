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
//	CRC-32C up to the body  4 bytes, little endian
//	stamp                   16 bytes: when it was written, see stamp
//	length of the head      uvarint
//	head                    JSON
//	CRC-32C of the body     4 bytes, little endian
//	body: length of Arguments (uvarint), Arguments, Result: JSON, as they are
//
// The database does not check what is in its pages, so the checksums do. A listing reads no bodies.
type record struct {
	mcpvisor.JournalEntry
	TaskID      string    `json:"taskId,omitempty"` // JournalEntry leaves these out
	TaskCreated time.Time `json:"taskCreated,omitzero"`
	Target      string    `json:"target,omitempty"`
	Incarnation string    `json:"incarnation,omitempty"`
}

// A stamp is a time of the journal (Journal.now), and what the clock of the machine said then.
type stamp struct{ at, clock time.Time }

const stampBytes = 16

// append adds the stamp: nanoseconds since 1970, little endian.
func (s stamp) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(s.at.UnixNano()))
	return binary.LittleEndian.AppendUint64(b, uint64(s.clock.UnixNano()))
}

func readStamp(b []byte) stamp {
	read := func(b []byte) time.Time { return time.Unix(0, int64(binary.LittleEndian.Uint64(b))) }
	return stamp{read(b), read(b[8:])}
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
const prefixBytes = 4 + stampBytes

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode returns the record of an entry, which is not stamped.
func encode(e mcpvisor.JournalEntry) ([]byte, error) {
	arguments, result := e.Arguments, e.Result
	e.Arguments, e.Result, e.Open = nil, nil, false
	head, err := json.Marshal(record{e, e.TaskID, e.TaskCreated, e.Target, e.Incarnation})
	if err != nil {
		return nil, fmt.Errorf("encode the entry %q: %w", e.Key, err)
	}
	b := make([]byte, prefixBytes, prefixBytes+2*binary.MaxVarintLen64+len(head)+4+len(arguments)+len(result))
	b = append(binary.AppendUvarint(b, uint64(len(head))), head...)
	body := len(b) + 4
	b = binary.AppendUvarint(b[:body], uint64(len(arguments)))
	b = append(append(b, arguments...), result...)
	binary.LittleEndian.PutUint32(b[body-4:], crc32.Checksum(b[body:], castagnoli))
	stamp{e.Updated, e.Updated}.set(b)
	return b, nil
}

// set stamps a record.
func (s stamp) set(record []byte) {
	s.append(record[4:4])
	_, rest, _ := cut(record[prefixBytes:])
	binary.LittleEndian.PutUint32(record, crc32.Checksum(record[4:len(record)-len(rest)], castagnoli))
}

// errRecord is the cause of a record that was changed on disk.
var errRecord = errors.New("its checksum is wrong")

// decodeHead reads the record of a key without Arguments and Result, which are in rest. The entry has its
// own memory.
func decodeHead(key, b []byte) (e mcpvisor.JournalEntry, rest []byte, err error) {
	if len(b) < prefixBytes {
		return e, nil, damagedEntry(key, errRecord)
	}
	head, rest, ok := cut(b[prefixBytes:])
	if !ok || binary.LittleEndian.Uint32(b) != crc32.Checksum(b[4:len(b)-len(rest)], castagnoli) {
		return e, nil, damagedEntry(key, errRecord)
	}
	var r record
	if err := json.Unmarshal(head, &r); err != nil {
		return e, nil, damagedEntry(key, err)
	}
	if !bytes.Equal(encodeKey(r.JournalKey()), key) {
		return e, nil, damagedEntry(key, errRecord)
	}
	e = r.JournalEntry
	e.TaskID, e.TaskCreated, e.Target, e.Incarnation = r.TaskID, r.TaskCreated, r.Target, r.Incarnation
	return e, rest, nil
}

// decode reads the record of a key. The entry has its own memory.
func decode(key, b []byte) (mcpvisor.JournalEntry, error) {
	e, rest, err := decodeHead(key, b)
	if err != nil {
		return e, err
	}
	if len(rest) < 4 || binary.LittleEndian.Uint32(rest) != crc32.Checksum(rest[4:], castagnoli) {
		return mcpvisor.JournalEntry{}, damagedEntry(key, errRecord)
	}
	arguments, result, ok := cut(rest[4:])
	if !ok {
		return mcpvisor.JournalEntry{}, damagedEntry(key, errRecord)
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

// stampOf is when a record was written, which decode has read before.
func stampOf(b []byte) stamp { return readStamp(b[4:]) }
