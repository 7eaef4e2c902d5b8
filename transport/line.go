package transport

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

const (
	// readBuffer is small because an idle server should cost little; long lines
	// are gathered beside it.
	readBuffer = 8 << 10
	// edge is how much of either end of an oversize line is kept, to find out
	// which call it would have answered.
	edge = 512
)

// lineReader splits a stream into lines. "Messages are delimited by newlines,
// and MUST NOT contain embedded newlines" (MCP, transports, stdio).
type lineReader struct {
	r     *bufio.Reader
	limit int
}

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, readBuffer), limit: limit}
}

// next returns the next line without its line break. The line belongs to the
// caller. A line longer than the limit is skipped to its end without being
// held in memory; line is then its first and tail its last bytes, and over is
// true. At the end of the stream an unfinished line is returned with the
// error.
func (l *lineReader) next() (line, tail []byte, over bool, err error) {
	for {
		chunk, err := l.r.ReadSlice('\n')
		if len(line)+len(chunk) > l.limit+1 && !over { // +1: the line break does not count
			over = true
			line, tail = clip(line, chunk)
		} else if over {
			_, tail = clip(tail, chunk)
		} else {
			line = append(line, chunk...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return trimBreak(line), tail, over, err
		}
		return trimBreak(line), tail, over, nil
	}
}

// clip keeps the beginning and the end of held followed by more.
func clip(held, more []byte) (head, tail []byte) {
	head = append(head, held[:min(len(held), edge)]...)
	if room := edge - len(head); room > 0 {
		head = append(head, more[:min(len(more), room)]...)
	}
	if len(more) < edge {
		tail = append(tail, held[max(0, len(held)-(edge-len(more))):]...)
	}
	return head, append(tail, more[max(0, len(more)-edge):]...)
}

func trimBreak(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}
