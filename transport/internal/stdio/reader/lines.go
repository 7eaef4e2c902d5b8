package reader

import (
	"bytes"
	"errors"
	"io"
	"math"

	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/pipe"
)

// maxSizeHint bounds how far the size of one line predicts the size of the next one, in
// bytes.
const maxSizeHint = 4 << 20

// lineReader splits a stream into lines. "Messages are delimited by newlines,
// and MUST NOT contain embedded newlines" (MCP, transports, stdio). The goroutine that reads
// owns it. While it waits for a line, it holds no buffer, if the stream is a pipe of Unix.
type lineReader struct {
	in    *pipe.Reader
	limit int // the longest line that is returned, in bytes

	// Set by the Reader before the first line is read.

	// onLarge, if set, is called once, at the first large line.
	onLarge func()
	// onUnfinished, if set, is called with the beginning of a line whose rest has not
	// arrived yet. It must not keep the bytes.
	onUnfinished func(line []byte)
	// reserve, if set, reserves memory for a large line. If it reports false, the line is
	// skipped, and noRoom is set. free releases the memory when the next line is begun.
	reserve func(bytes int) bool
	free    func()

	reserved int  // what reserve has granted for the current line
	noRoom   bool // the last line was skipped for lack of memory

	buf        []byte       // nil: nothing is held
	pooled     *pipe.Buffer // the pooled memory of buf; nil: buf is not from the pool
	bufSize    int          // the size of the last buf that went back to the pool
	start, end int          // buf[start:end] was read, and next has not returned it yet
	searched   int          // the number of bytes from start that hold no line break
	sizeHint   int          // the size of the last large line
	readCount  int          // the number of reads
	err        error        // the error of the last read
	lineStart  int          // where the line just returned begins

	paused     bool   // the last read found nothing and did not wait
	resumes    bool   // the last call of next was paused: reserved is for the current line
	skipping   bool   // the rest of the current line is to be skipped
	head, tail []byte // its two ends so far

	// forLeader: a leader reads, which must not be held up. next returns errPaused instead of
	// a line that is skipped, large, or not a message, instead of the end of the stream, and
	// instead of reserving memory.
	forLeader bool
}

// errPaused: there is no line yet. The next call of next continues at the same place.
var errPaused = errors.New("the reading is paused")

func newLineReader(r io.Reader, limit int) *lineReader {
	// The buffer is longer than the limit. Its length must not overflow an int.
	limit = min(limit, math.MaxInt-jsonrpc.ReadBufferSize)
	return &lineReader{in: pipe.NewReader(r), limit: limit, bufSize: pipe.MinBuffer}
}

// next returns the next line without its line break. The line is valid until the next
// call; see [lineReader.detach]. A line longer than the limit, or without room, is held
// up to that point and then dropped: line is its beginning and tail its end. At the end of
// the stream, an unfinished line is returned together with the error.
func (l *lineReader) next() (line, tail []byte, skipped bool, err error) {
	line, tail, skipped, err = l.readLine()
	l.resumes = errors.Is(err, errPaused)
	return line, tail, skipped, err
}

func (l *lineReader) readLine() (line, tail []byte, skipped bool, err error) {
	if l.skipping {
		if l.forLeader {
			return nil, nil, false, errPaused
		}
		return l.skipLine()
	}
	l.noRoom = false
	l.lineStart = l.start
	if l.reserved > 0 && !l.resumes {
		l.free()
		l.reserved = 0
	}
	for {
		fresh := l.buf[l.start+l.searched : l.end]
		if i := bytes.IndexByte(fresh, '\n'); i >= 0 {
			if l.forLeader && l.searched+i >= jsonrpc.LargeMessage {
				return nil, nil, false, errPaused
			}
			line = l.buf[l.start : l.start+l.searched+i]
			l.start += l.searched + i + 1
			l.searched = 0
			if line = trimLineBreak(line); len(line) > l.limit {
				line, tail = jsonrpc.ClipEnds(line, nil)
				return line, tail, true, nil
			}
			return line, nil, false, nil
		}
		l.searched = l.end - l.start
		if l.forLeader && !l.fitsLeader() {
			return nil, nil, false, errPaused
		}
		switch {
		case l.searched > l.limit+1: // +1: a carriage return does not count
			l.beginSkip()
			return l.skipLine()
		case l.err != nil:
			line = trimLineBreak(l.buf[l.start:l.end])
			l.start, l.searched = l.end, 0
			if skipped = len(line) > l.limit; skipped {
				line, tail = jsonrpc.ClipEnds(line, nil)
			}
			return line, tail, skipped, l.err
		}
		if l.searched > 0 && l.onUnfinished != nil {
			l.onUnfinished(l.buf[l.start:l.end])
		}
		if !l.fillBuffer() {
			if l.forLeader {
				return nil, nil, false, errPaused
			}
			l.noRoom = true
			l.beginSkip()
			return l.skipLine()
		}
		if l.lineStart = l.start; l.paused {
			return nil, nil, false, errPaused
		}
	}
}

// reserveFor reserves memory so that the current line holds the given number of bytes in
// total. It reports false if there is no memory, and for a leader, as it may wait.
func (l *lineReader) reserveFor(bytes int) bool {
	if l.reserve == nil || bytes < jsonrpc.LargeMessage || bytes <= l.reserved {
		return true
	}
	if l.forLeader || !l.reserve(bytes-l.reserved) {
		return false
	}
	l.reserved = bytes
	return true
}

// fillBuffer makes space in the buffer and reads once. It reports false, without
// reading, if there is no memory for a larger buffer.
func (l *lineReader) fillBuffer() bool {
	held := l.end - l.start
	switch {
	case held == 0 && len(l.buf) > jsonrpc.LargeMessage:
		l.dropBuffer()
	case held == 0:
		l.start, l.end = 0, 0
	case l.end < len(l.buf):
	case l.start > 0 && held <= len(l.buf)/2:
		l.start, l.end = 0, copy(l.buf, l.buf[l.start:l.end])
	default:
		if !l.growBuffer(held) {
			return false
		}
	}
	for empty := 0; ; empty++ {
		n, err := l.in.Read(l)
		l.end += n
		if l.paused = errors.Is(err, pipe.ErrEmpty); l.paused {
			return true
		}
		l.err = err
		if n == 0 && err == nil && empty < 100 {
			continue
		}
		if n == 0 && err == nil {
			l.err = io.ErrNoProgress
		}
		l.readCount++
		return true
	}
}

// growBuffer doubles the buffer; for a large line, at least to the size of the last large
// line. held is the number of bytes that are kept.
func (l *lineReader) growBuffer(held int) bool {
	most := l.limit + jsonrpc.ReadBufferSize
	size := len(l.buf) + min(len(l.buf), max(0, most-len(l.buf)))
	if held >= jsonrpc.LargeMessage {
		size = max(size, l.sizeHint+jsonrpc.ReadBufferSize)
		if l.onLarge != nil {
			l.onLarge()
			l.onLarge = nil
		}
	}
	if size = min(size, most); !l.reserveFor(size) {
		return false
	}
	l.newBuffer(size)
	return true
}

// newBuffer replaces the buffer by one of size bytes, which begins with what is held.
func (l *lineReader) newBuffer(size int) {
	pooled, held := pipe.GetBuffer(size), l.buf[l.start:l.end]
	var fresh []byte
	if pooled != nil {
		fresh = pooled.Bytes
	} else {
		fresh = make([]byte, size)
	}
	end := copy(fresh, held)
	searched := l.searched
	l.dropBuffer()
	l.buf, l.pooled, l.end, l.searched = fresh, pooled, end, searched
}

// dropBuffer gives the buffer back, with what it holds.
func (l *lineReader) dropBuffer() {
	if l.pooled != nil {
		l.bufSize = len(l.buf)
		l.pooled.Put()
	}
	l.buf, l.pooled, l.start, l.end, l.searched = nil, nil, 0, 0, 0
}

// Acquire implements [pipe.Space]. There is room behind what is held.
func (l *lineReader) Acquire() []byte {
	if l.buf == nil {
		l.newBuffer(l.bufSize)
	}
	return l.buf[l.end:]
}

// Release implements [pipe.Space]. The beginning of a line stays.
func (l *lineReader) Release() {
	if l.start == l.end {
		l.dropBuffer()
	}
}

// fitsLeader reports whether a leader may continue to read the current line, which is not
// complete.
func (l *lineReader) fitsLeader() bool {
	return l.err == nil && l.searched <= l.limit+1 && l.searched < jsonrpc.LargeMessage/2 &&
		(l.searched == 0 || l.buf[l.start] == '{')
}

// beginSkip makes skipLine skip the current line.
func (l *lineReader) beginSkip() {
	l.head, l.tail = jsonrpc.ClipEnds(l.buf[l.start:l.end], nil)
	l.skipping = true
}

// skipLine drops the rest of a line, and returns its two ends like next.
func (l *lineReader) skipLine() (head, tail []byte, skipped bool, err error) {
	head, tail = l.head, l.tail
	for l.err == nil {
		l.start, l.end, l.searched = 0, 0, 0
		l.fillBuffer() // into an empty buffer: it does not grow
		if l.paused {
			l.tail = tail
			return nil, nil, false, errPaused
		}
		if i := bytes.IndexByte(l.buf[:l.end], '\n'); i >= 0 {
			_, tail = jsonrpc.ClipEnds(tail, l.buf[:i])
			l.start = i + 1
			l.skipping = false
			return head, trimLineBreak(tail), true, nil
		}
		_, tail = jsonrpc.ClipEnds(tail, l.buf[:l.end])
	}
	l.start, l.searched = l.end, 0
	l.skipping = false
	return head, trimLineBreak(tail), true, l.err
}

// inLongLine reports whether the current line is skipped or holds reserved memory.
func (l *lineReader) inLongLine() bool { return l.skipping || l.reserved > 0 }

// unread makes next return the last line again.
func (l *lineReader) unread() { l.start, l.searched = l.lineStart, 0 }

// holds reports whether next may return something without a read. The beginning of a line
// counts.
func (l *lineReader) holds() bool { return l.start < l.end || l.err != nil || l.skipping }

// detach returns a part of the last line in memory that the reader does not reuse. A large
// part keeps the buffer, which saves a copy, and the reader allocates another one.
func (l *lineReader) detach(part []byte) []byte {
	if len(part) < jsonrpc.LargeMessage {
		return bytes.Clone(part)
	}
	l.sizeHint = min(len(part), maxSizeHint)
	if len(part) < len(l.buf)/2 {
		return bytes.Clone(part)
	}
	l.pooled = nil // the caller keeps it
	if l.start == l.end {
		l.dropBuffer()
	} else {
		held := l.end - l.start
		l.newBuffer(max(jsonrpc.ReadBufferSize, held+min(held, maxSizeHint)))
	}
	return part[:len(part):len(part)]
}

func trimLineBreak(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}
