// Package linereader reads lines in bounded memory.
package linereader

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Reader reads lines. One goroutine uses it.
type Reader struct {
	from     *bufio.Reader
	maxBytes int
}

// New returns a reader of lines of maxBytes at most.
func New(from io.Reader, maxBytes int) *Reader {
	return &Reader{bufio.NewReaderSize(from, 64<<10), maxBytes}
}

// ErrTooLong is the error of a line that was skipped, because it is longer than maxBytes.
var ErrTooLong = errors.New("the line is too long")

// Next returns the next line that is not blank, with its end, in memory of its own. It returns
// [ErrTooLong] after it has skipped a longer one. What comes after the last end of a line is not returned.
func (r *Reader) Next() ([]byte, error) {
	for {
		var line []byte
		tooLong := false
		for {
			part, err := r.from.ReadSlice('\n')
			if tooLong = tooLong || len(line)+len(part) > r.maxBytes; tooLong {
				line = nil
			} else {
				line = append(line, part...)
			}
			if err == nil {
				break
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				return nil, err
			}
		}
		switch {
		case tooLong:
			return nil, ErrTooLong
		case len(bytes.TrimSpace(line)) > 0:
			return line, nil
		}
	}
}
