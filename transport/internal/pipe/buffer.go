package pipe

import "sync"

// MinBuffer is the size of the smallest [Buffer] in bytes.
const MinBuffer = 8 << 10

// pools hold the buffers that are not in use, by their size: 8, 16, 32 and 64 KiB. Larger
// memory is not worth keeping for another message.
var pools [4]sync.Pool

// Buffer is memory that is reused. Its length does not change.
type Buffer struct{ Bytes []byte }

// GetBuffer returns a buffer of that size; nil if buffers do not have this size. What it
// holds is random.
func GetBuffer(size int) *Buffer {
	pool := poolOf(size)
	if pool == nil {
		return nil
	}
	if b, ok := pool.Get().(*Buffer); ok {
		return b
	}
	return &Buffer{make([]byte, size)}
}

// Put gives the buffer back. The caller must not use it any more.
func (b *Buffer) Put() { poolOf(len(b.Bytes)).Put(b) }

// poolOf returns the pool of the buffers of that size; nil if buffers do not have this size.
func poolOf(size int) *sync.Pool {
	for i := range pools {
		if size == MinBuffer<<i {
			return &pools[i]
		}
	}
	return nil
}
