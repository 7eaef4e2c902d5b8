package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// The layout of a file of bbolt, in the byte order of the machine. bbolt maps the file to memory and trusts it: a
// page that makes no sense would end the process of the host with a fault that nothing can
// recover. So verify reads the pages first.
//
//	page    id 8, flags 2, count 2, overflow 4; then count elements, then keys and values
//	meta    magic 4, version 4, page size 4, flags 4, root 8, sequence 8, freelist 8,
//	        number of pages 8, transaction 8, checksum 8 (FNV-1a of what is before it)
//	branch  position 4 (from the element), length of the key 4, page 8
//	leaf    flags 4, position 4, length of the key 4, length of the value 4
//	bucket  root 8, sequence 8; without a root its only page follows
const (
	headerBytes  = 16
	elementBytes = 16
	metaBytes    = 64
	bucketBytes  = 16

	magic           = 0xED0CDAED
	databaseVersion = 2

	branchFlag   = 0x01
	leafFlag     = 0x02
	freelistFlag = 0x10

	noFreelist = ^uint64(0)
	manyFree   = 0xFFFF // the count of a freelist that begins with its real count
)

// order is the byte order of the machine.
var order = binary.NativeEndian

// errPages is the cause of a file whose pages make no sense.
var errPages = errors.New("its pages do not belong together")

// verifier reads the pages of a file.
type verifier struct {
	file     io.ReaderAt
	pageSize uint64
	pages    uint64          // how many there are
	seen     map[uint64]bool // pages that are in use
}

// verify reports whether a file of that size is a database whose pages can be read. The error is an ErrDamaged or an ErrNewer.
func verify(file io.ReaderAt, size int64) error {
	meta, err := findMeta(file, size)
	if err != nil {
		return err
	}
	v := &verifier{file: file, pageSize: uint64(order.Uint32(meta[8:])), pages: order.Uint64(meta[40:]), seen: map[uint64]bool{0: true, 1: true}}
	if v.pages > uint64(size)/v.pageSize {
		return fmt.Errorf("%w: it has %d bytes of %d", ErrDamaged, size, v.pages*v.pageSize)
	}
	if err := v.tree(order.Uint64(meta[16:])); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err := v.freelist(order.Uint64(meta[32:])); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

// findMeta returns the metadata of the last transaction: of the two pages that have metadata
// the later one that is whole.
func findMeta(file io.ReaderAt, size int64) (last []byte, err error) {
	err = fmt.Errorf("%w: it is no database", ErrDamaged)
	for at := int64(0); at <= 64<<10 && at < size; at = max(1<<10, at*2) { // of any size of pages
		b := make([]byte, headerBytes+metaBytes)
		if _, e := file.ReadAt(b, at); e != nil && !errors.Is(e, io.EOF) {
			return nil, e
		}
		meta := b[headerBytes:]
		h := fnv.New64a()
		_, _ = h.Write(meta[:metaBytes-8])
		pageSize := int64(order.Uint32(meta[8:]))
		switch {
		case order.Uint32(meta) != magic, h.Sum64() != order.Uint64(meta[metaBytes-8:]), at != 0 && at != pageSize, pageSize < 1<<10:
		case order.Uint32(meta[4:]) != databaseVersion:
			err = fmt.Errorf("%w: version %d of the database", ErrNewer, order.Uint32(meta[4:]))
		case last == nil || order.Uint64(meta[48:]) > order.Uint64(last[48:]):
			last = meta
		}
	}
	if last == nil {
		return nil, err
	}
	return last, nil
}

// page reads a page that nothing else uses, with those that continue it.
func (v *verifier) page(id uint64) ([]byte, error) {
	if id >= v.pages {
		return nil, errPages
	}
	header := make([]byte, headerBytes)
	if _, err := v.file.ReadAt(header, int64(id*v.pageSize)); err != nil {
		return nil, err
	}
	more := uint64(order.Uint32(header[12:]))
	if order.Uint64(header) != id || more >= v.pages-id {
		return nil, errPages
	}
	for n := id; n <= id+more; n++ {
		if v.seen[n] {
			return nil, errPages
		}
		v.seen[n] = true
	}
	b := make([]byte, (more+1)*v.pageSize)
	_, err := v.file.ReadAt(b, int64(id*v.pageSize))
	return b, err
}

// tree reads the tree below a page.
func (v *verifier) tree(id uint64) error {
	b, err := v.page(id)
	if err != nil {
		return err
	}
	return v.elements(b)
}

// elements reads the elements of a page of a tree, and what is below them.
func (v *verifier) elements(b []byte) error {
	flags, count := order.Uint16(b[8:]), int(order.Uint16(b[10:]))
	if flags != branchFlag && flags != leafFlag || headerBytes+count*elementBytes > len(b) || flags == branchFlag && count == 0 {
		return errPages
	}
	var last []byte
	for i := range count {
		at := headerBytes + i*elementBytes
		e := b[at : at+elementBytes]
		position, key, value := order.Uint32(e), order.Uint32(e[4:]), uint32(0)
		if flags == leafFlag {
			position, key, value = order.Uint32(e[4:]), order.Uint32(e[8:]), order.Uint32(e[12:])
		}
		from := uint64(at) + uint64(position)
		if from+uint64(key)+uint64(value) > uint64(len(b)) || int(position) < elementBytes*(count-i) {
			return errPages
		}
		name := b[from : from+uint64(key)]
		if i > 0 && bytes.Compare(last, name) >= 0 {
			return errPages
		}
		last = name
		var err error
		switch {
		case flags == branchFlag:
			err = v.tree(order.Uint64(e[8:]))
		case order.Uint32(e) == 1:
			err = v.bucket(b[from+uint64(key) : from+uint64(key)+uint64(value)])
		case order.Uint32(e) != 0:
			err = errPages
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bucket reads a bucket, which is the value of an element.
func (v *verifier) bucket(b []byte) error {
	if len(b) < bucketBytes {
		return errPages
	}
	if root := order.Uint64(b); root != 0 {
		return v.tree(root)
	}
	if b = b[bucketBytes:]; len(b) < headerBytes || order.Uint16(b[8:]) != leafFlag {
		return errPages
	}
	return v.elements(b)
}

// freelist reads the list of the pages that are free.
func (v *verifier) freelist(id uint64) error {
	if id == noFreelist {
		return nil
	}
	b, err := v.page(id)
	if err != nil {
		return err
	}
	count, ids := uint64(order.Uint16(b[10:])), b[headerBytes:]
	if order.Uint16(b[8:]) != freelistFlag {
		return errPages
	}
	if count == manyFree {
		count, ids = order.Uint64(ids), ids[8:]
	}
	if count > uint64(len(ids))/8 {
		return errPages
	}
	for i := range count {
		free := order.Uint64(ids[8*i:])
		if free >= v.pages || v.seen[free] {
			return errPages
		}
		v.seen[free] = true
	}
	if uint64(len(v.seen)) != v.pages { // a page is neither used nor free
		return errPages
	}
	return nil
}
