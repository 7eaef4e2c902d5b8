// Package varint encodes and decodes the parts of frames and messages between nodes: numbers as varints,
// and bytes after their length. It keeps no state; a Reader never reads beyond its bytes.
package varint

import "encoding/binary"

// AppendBytes appends the length of payload, and payload.
func AppendBytes(b, payload []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(payload))), payload...)
}

// AppendText is AppendBytes for a string.
func AppendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Reader decodes the bytes of a peer. After a failure all results are zero.
type Reader struct {
	Rest   []byte // not read yet
	Failed bool   // a read found too few bytes, or a number that is not valid
}

// Byte reads a byte.
func (r *Reader) Byte() byte {
	if r.Failed || len(r.Rest) == 0 {
		r.Failed = true
		return 0
	}
	b := r.Rest[0]
	r.Rest = r.Rest[1:]
	return b
}

// Uint reads an unsigned varint.
func (r *Reader) Uint() uint64 {
	if r.Failed {
		return 0
	}
	n, size := binary.Uvarint(r.Rest)
	if size <= 0 {
		r.Failed = true
		return 0
	}
	r.Rest = r.Rest[size:]
	return n
}

// Int reads a signed varint.
func (r *Reader) Int() int64 {
	if r.Failed {
		return 0
	}
	n, size := binary.Varint(r.Rest)
	if size <= 0 {
		r.Failed = true
		return 0
	}
	r.Rest = r.Rest[size:]
	return n
}

// Bytes reads what AppendBytes has written. The result shares the memory of Rest.
func (r *Reader) Bytes() []byte {
	n := r.Uint()
	if r.Failed || n > uint64(len(r.Rest)) {
		r.Failed = true
		return nil
	}
	b := r.Rest[:n:n]
	r.Rest = r.Rest[n:]
	return b
}

// Text reads what AppendText has written.
func (r *Reader) Text() string { return string(r.Bytes()) }

// Optional is Bytes, with nil for an empty result.
func (r *Reader) Optional() []byte {
	if b := r.Bytes(); len(b) > 0 {
		return b
	}
	return nil
}
