// Package httpbody reads the bodies of HTTP responses in bounded memory: JSON values,
// which may be complete before the body ends, and streams of server-sent events.
//
// A reader reserves memory for large content before it reads that content, by a [Reserver]
// that its owner sets. In this way the messages of all servers share one budget.
package httpbody

import (
	"bytes"
	"errors"
	"io"
	"math"

	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

const (
	// maxPreallocated is the largest body for which memory is allocated because of its
	// Content-Length alone.
	maxPreallocated = 1 << 20
	// announcedGrowth is by how much the memory for a longer body grows at most, whenever what
	// has arrived fills it, until it has the size that Content-Length announced.
	announcedGrowth = 8
)

// ErrTooLong is the error of a body that is longer than its limit.
var ErrTooLong = errors.New("the body is longer than its limit")

// byteOrderMark begins some texts in UTF-8. RFC 8259, section 8.1: those who parse JSON
// "MAY ignore the presence of a byte order mark rather than treating it as an error".
var byteOrderMark = []byte("\ufeff")

// ReadUpTo reads the body to its end, or until it is a complete JSON value for which
// enough returns true. It fails with ErrTooLong beyond limit bytes. expected is the
// Content-Length, or -1. ended says whether the end of the body was reached. The body is
// returned without a byte order mark.
func (b *BodyReader) ReadUpTo(limit int, expected int64, enough func(text []byte) bool) (body []byte, ended bool, err error) {
	if expected > int64(limit) {
		return nil, false, ErrTooLong
	}
	if !b.reserveUpTo(int(min(expected, maxPreallocated))) {
		return nil, false, jsonrpc.ErrNoRoom
	}
	if expected >= 0 && expected <= maxPreallocated {
		whole := make([]byte, expected)
		_, err := io.ReadFull(b.Body, whole)
		return bytes.TrimPrefix(whole, byteOrderMark), true, err
	}
	if expected > 0 {
		b.Text, b.announced = make([]byte, 0, maxPreallocated), int(expected)
	}
	ended, err = b.Read(min(limit, math.MaxInt-1)+1, enough)
	switch {
	case err != nil:
		return nil, false, err
	case len(b.Text) > limit:
		return nil, false, ErrTooLong
	}
	return b.Content(), ended, nil
}

// BodyReader collects the text of a body. One goroutine owns it, with all its fields.
type BodyReader struct {
	Body      io.Reader
	Text      []byte   // what was read so far
	announced int      // the Content-Length of a body that is not allocated at once; 0: unknown
	end       valueEnd // finds the end of a value in Text
	examined  int      // how many bytes of Text isEnough has examined
	// Reserver, if set, reserves memory for a large body.
	Reserver Reserver
	reserved int // bytes, by Reserver
}

// Content returns Text without a byte order mark.
func (b *BodyReader) Content() []byte { return bytes.TrimPrefix(b.Text, byteOrderMark) }

// Reserver reserves memory for large content. It is an interface, because a function value
// would allocate for each body.
type Reserver interface {
	// Reserve reserves more bytes, and blocks until they are available. It reports false if
	// the exchange ends first.
	Reserve(bytes int) bool
	// Release returns all bytes.
	Release()
}

// reserveUpTo reserves memory for a body of this many bytes in total.
func (b *BodyReader) reserveUpTo(bytes int) bool { return reserveUpTo(b.Reserver, &b.reserved, bytes) }

// reserveUpTo reserves memory for content of this many bytes in total, of which reserved are
// reserved. It reports false if there is no room. Small content needs no reservation.
func reserveUpTo(r Reserver, reserved *int, bytes int) bool {
	if r == nil || bytes < jsonrpc.LargeMessage || bytes <= *reserved {
		return true
	}
	if !r.Reserve(bytes - *reserved) {
		return false
	}
	*reserved = bytes
	return true
}

// Read reads until the body ends, until Text is most bytes long, or until Text is a
// complete JSON value for which enough returns true. ended says whether the end of the
// body was reached.
func (b *BodyReader) Read(most int, enough func(text []byte) bool) (ended bool, err error) {
	for len(b.Text) < most {
		if len(b.Text) == cap(b.Text) {
			size := b.nextSize(most)
			if !b.reserveUpTo(size) {
				return false, jsonrpc.ErrNoRoom
			}
			b.Text = resized(b.Text, size)
		}
		n, err := b.Body.Read(b.Text[len(b.Text):min(cap(b.Text), most)])
		b.Text = b.Text[:len(b.Text)+n]
		switch {
		case errors.Is(err, io.EOF):
			return true, nil
		case n > 0 && len(b.Text) < most && b.isEnough(enough):
			return false, nil
		case err != nil:
			return false, err
		}
	}
	return false, nil
}

// nextSize returns the capacity that Text gets when it is full: twice as much, or up to the
// announced length and one byte for the end of the body; most at most.
func (b *BodyReader) nextSize(most int) int {
	n := len(b.Text)
	if n < b.announced {
		return min(announcedGrowth*n, b.announced+1, most)
	}
	return min(2*n+bytes.MinRead, most)
}

// resized returns a copy of text with exactly this capacity.
func resized(text []byte, size int) []byte {
	return append(make([]byte, 0, size), text...)
}

// isEnough reports whether Text is a complete value for which enough returns true. It
// calls enough once for each complete value, and not again for white space after it.
func (b *BodyReader) isEnough(enough func(text []byte) bool) bool {
	if enough == nil {
		return false
	}
	added := bytes.TrimRight(b.Text[b.examined:], " \t\r\n")
	value := bytes.TrimPrefix(b.Text[:b.examined+len(added)], byteOrderMark)
	b.examined = len(b.Text)
	return len(added) > 0 && b.end.reached(value) && enough(value)
}

// valueEnd finds the end of a JSON object or array in a text that grows. It only counts
// brackets outside of strings. Therefore it never mistakes the beginning of a valid value
// for the whole value, but it may accept a value that is not valid JSON.
type valueEnd struct {
	at       int // the text before this index has been examined
	depth    int
	inString bool
	ended    bool // the outermost bracket is closed
	invalid  bool // the text is not an object or array, or more text follows one
}

// reached reports whether text is a complete value. Each call must pass the text of the
// previous call with more text appended.
func (v *valueEnd) reached(text []byte) bool {
	tail := bytes.TrimRight(text, " \t\r\n")
	if len(tail) == 0 || tail[len(tail)-1] != '}' && tail[len(tail)-1] != ']' {
		return false // a value cannot end here, so the text need not be examined yet
	}
	for v.at < len(tail) && !v.invalid {
		if v.inString {
			v.skipString(tail)
			continue
		}
		v.scanByte(tail[v.at])
		v.at++
	}
	return v.ended && !v.invalid
}

// skipString advances to the end of a string, or to the end of the text.
func (v *valueEnd) skipString(text []byte) {
	i := bytes.IndexAny(text[v.at:], `"\`)
	switch {
	case i < 0:
		v.at = len(text)
	case text[v.at+i] == '"':
		v.at += i + 1
		v.inString = false
	default: // the escaped character may not have arrived yet; then at is beyond the text
		v.at += i + 2
	}
}

// scanByte examines one byte outside of strings.
func (v *valueEnd) scanByte(c byte) {
	switch c {
	case ' ', '\t', '\r', '\n':
	case '{', '[':
		v.invalid = v.ended
		v.depth++
	case '}', ']':
		v.depth--
		v.ended = v.depth == 0
		v.invalid = v.depth < 0
	default:
		v.invalid = v.depth == 0
		v.inString = c == '"'
	}
}
