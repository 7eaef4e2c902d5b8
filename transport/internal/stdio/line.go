package stdio

import (
	"bytes"
	"io"
	"math"

	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

const (

	// hintMax bounds how far the size of one line is taken as a hint for the next.
	hintMax = 4 << 20
)

// lineReader splits a stream into lines. "Messages are delimited by newlines,
// and MUST NOT contain embedded newlines" (MCP, transports, stdio).
type lineReader struct {
	r     io.Reader
	limit int
	// onLarge, if set, is called once, at the first large line.
	onLarge func()
	// reserve, if set, makes room for a large line; free gives it back when the
	// line is done with. If there is no room the line is skipped, and crowded is set.
	reserve  func(bytes int) bool
	free     func()
	reserved int
	crowded  bool
	// onUnfinished, if set, is called with the beginning of a line when there is no
	// more of it for the moment. It must not keep it.
	onUnfinished func(line []byte)

	buf        []byte
	start, end int // what is read and not yet returned
	searched   int // how much of that is known to hold no line break
	hint       int // size of the last large line
	reads      int
	err        error
}

func newLineReader(r io.Reader, limit int) *lineReader {
	// A buffer may be longer than the limit, but not than an int can say.
	limit = min(limit, math.MaxInt-jsonrpc.ReadBufferSize)
	return &lineReader{r: r, limit: limit, buf: make([]byte, jsonrpc.ReadBufferSize)}
}

// next returns the next line without its line break. It is valid until the
// following call; see [lineReader.claim]. A line longer than the limit is
// skipped to its end without being held in memory; line is then its first and
// tail its last bytes, and over is true. At the end of the stream an
// unfinished line is returned with the error.
func (l *lineReader) next() (line, tail []byte, over bool, err error) {
	l.crowded = false
	if l.reserved > 0 {
		l.free()
		l.reserved = 0
	}
	for {
		fresh := l.buf[l.start+l.searched : l.end]
		if i := bytes.IndexByte(fresh, '\n'); i >= 0 {
			line = l.buf[l.start : l.start+l.searched+i]
			l.start += l.searched + i + 1
			l.searched = 0
			if line = trimBreak(line); len(line) > l.limit {
				line, tail = jsonrpc.ClipEnds(line, nil)
				return line, tail, true, nil
			}
			return line, nil, false, nil
		}
		l.searched = l.end - l.start
		switch {
		case l.searched > l.limit+1: // +1: a carriage return does not count
			line, tail, err = l.skip()
			return line, tail, true, err
		case l.err != nil:
			line = trimBreak(l.buf[l.start:l.end])
			l.start, l.searched = l.end, 0
			if over = len(line) > l.limit; over {
				line, tail = jsonrpc.ClipEnds(line, nil)
			}
			return line, tail, over, l.err
		}
		if l.searched > 0 && l.onUnfinished != nil && l.buf[l.start] != '{' {
			l.onUnfinished(l.buf[l.start:l.end])
		}
		if !l.fill() {
			l.crowded = true
			line, tail, err = l.skip()
			return line, tail, true, err
		}
	}
}

// hold reserves room for so many bytes of the line in all.
func (l *lineReader) hold(bytes int) bool {
	if l.reserve == nil || bytes < jsonrpc.LargeMessage || bytes <= l.reserved {
		return true
	}
	if !l.reserve(bytes - l.reserved) {
		return false
	}
	l.reserved = bytes
	return true
}

// fill makes room and reads once. It reports false, without reading, if there is
// no room.
func (l *lineReader) fill() bool {
	held := l.end - l.start
	switch {
	case held == 0 && len(l.buf) > jsonrpc.LargeMessage:
		l.buf = make([]byte, jsonrpc.ReadBufferSize)
		l.start, l.end = 0, 0
	case held == 0:
		l.start, l.end = 0, 0
	case l.end < len(l.buf):
	case l.start > 0 && held <= len(l.buf)/2:
		l.start, l.end = 0, copy(l.buf, l.buf[l.start:l.end])
	default:
		if !l.grow(held) {
			return false
		}
	}
	for empty := 0; ; empty++ {
		n, err := l.r.Read(l.buf[l.end:])
		l.end += n
		l.err = err
		if n == 0 && err == nil && empty < 100 {
			continue
		}
		if n == 0 && err == nil {
			l.err = io.ErrNoProgress
		}
		l.reads++
		return true
	}
}

func (l *lineReader) grow(held int) bool {
	most := l.limit + jsonrpc.ReadBufferSize
	size := len(l.buf) + min(len(l.buf), max(0, most-len(l.buf)))
	if held >= jsonrpc.LargeMessage {
		size = max(size, l.hint+jsonrpc.ReadBufferSize)
		if l.onLarge != nil {
			l.onLarge()
			l.onLarge = nil
		}
	}
	if size = min(size, most); !l.hold(size) {
		return false
	}
	bigger := make([]byte, size)
	l.end = copy(bigger, l.buf[l.start:l.end])
	l.start, l.buf = 0, bigger
	return true
}

// skip drops the rest of a line that is too long.
func (l *lineReader) skip() (head, tail []byte, err error) {
	head, tail = jsonrpc.ClipEnds(l.buf[l.start:l.end], nil)
	for l.err == nil {
		l.start, l.end, l.searched = 0, 0, 0
		l.fill() // into an empty buffer: it does not grow
		if i := bytes.IndexByte(l.buf[:l.end], '\n'); i >= 0 {
			_, tail = jsonrpc.ClipEnds(tail, l.buf[:i])
			l.start = i + 1
			return head, trimBreak(tail), nil
		}
		_, tail = jsonrpc.ClipEnds(tail, l.buf[:l.end])
	}
	l.start, l.searched = l.end, 0
	return head, trimBreak(tail), l.err
}

// claim makes a part of the line just returned the caller's own. A large part
// takes the buffer along, which costs no copy.
func (l *lineReader) claim(part []byte) []byte {
	if len(part) < jsonrpc.LargeMessage {
		return bytes.Clone(part)
	}
	l.hint = min(len(part), hintMax)
	if len(part) < len(l.buf)/2 {
		return bytes.Clone(part)
	}
	rest := l.buf[l.start:l.end]
	l.buf = make([]byte, max(jsonrpc.ReadBufferSize, len(rest)+min(len(rest), hintMax)))
	l.start, l.end = 0, copy(l.buf, rest)
	return part[:len(part):len(part)]
}

func trimBreak(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}
