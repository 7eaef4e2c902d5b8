package streamable

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net/http"
	"slices"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

const (
	// maxPreallocated is the longest body for which memory is set aside because the
	// server says so.
	maxPreallocated = 1 << 20
	// maxWaste is how much of a body a small part of it may keep in memory.
	maxWaste = 1 << 10
)

var ErrTooLong = errors.New("too long")

// ReadUpTo reads the body to its end, or until it is a complete JSON value that is
// enough. It fails with errTooLong beyond limit bytes. expected is the length that
// the server has promised, or -1. ended says whether the end of the body came.
func (b *BodyReader) ReadUpTo(limit int, expected int64, enough func(text []byte) bool) (body []byte, ended bool, err error) {
	if expected > int64(limit) {
		return nil, false, ErrTooLong
	}
	if !b.hold(int(min(expected, maxPreallocated))) {
		return nil, false, jsonrpc.ErrNoRoom
	}
	if expected >= 0 && expected <= maxPreallocated {
		whole := make([]byte, expected)
		_, err := io.ReadFull(b.Body, whole)
		return whole, true, err
	}
	if expected > 0 {
		b.Text = make([]byte, 0, maxPreallocated+bytes.MinRead)
	}
	ended, err = b.Read(min(limit, math.MaxInt-1)+1, enough)
	switch {
	case err != nil:
		return nil, false, err
	case len(b.Text) > limit:
		return nil, false, ErrTooLong
	}
	return b.Text, ended, nil
}

// completeAnswer makes the function that ends the reading of a body before its end:
// when it holds the answer to the request with the given id. It is nil for a body
// that is only complete at its end: one with a length is incomplete without all of
// it (RFC 9112, section 8), and the checksum of a compressed one comes last.
func completeAnswer(resp *http.Response, id int64) func(text []byte) bool {
	if resp.ContentLength >= 0 || resp.Uncompressed {
		return nil
	}
	return func(text []byte) bool { return holdsAnswer(text, id) }
}

// BodyReader collects the text of a body.
type BodyReader struct {
	Body io.Reader
	Text []byte
	end  valueEnd
	seen int // how much of text isEnough has looked at
	// Reserve, if set, makes room for a large body; it fails when the exchange ends.
	Reserve  func(bytes int) bool
	reserved int
}

// hold reserves room for so many bytes of the body in all.
func (b *BodyReader) hold(bytes int) bool {
	if b.Reserve == nil || bytes < jsonrpc.LargeMessage || bytes <= b.reserved {
		return true
	}
	if !b.Reserve(bytes - b.reserved) {
		return false
	}
	b.reserved = bytes
	return true
}

// Read reads until the body ends, the text is most bytes long, or it is a complete
// JSON value that is enough.
func (b *BodyReader) Read(most int, enough func(text []byte) bool) (ended bool, err error) {
	for len(b.Text) < most {
		if len(b.Text) == cap(b.Text) {
			if !b.hold(2*len(b.Text) + bytes.MinRead) {
				return false, jsonrpc.ErrNoRoom
			}
			b.Text = slices.Grow(b.Text, len(b.Text)+bytes.MinRead)
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

// isEnough asks whether the text is a value that is enough: once for each value, and
// not again for white space behind it.
func (b *BodyReader) isEnough(enough func(text []byte) bool) bool {
	if enough == nil {
		return false
	}
	added := bytes.TrimRight(b.Text[b.seen:], " \t\r\n")
	value := b.Text[:b.seen+len(added)]
	b.seen = len(b.Text)
	return len(added) > 0 && b.end.reached(value) && enough(value)
}

// valueEnd finds the end of a JSON object or array in a text that grows. It only
// counts brackets outside of strings: it never takes the beginning of a valid
// value for all of it.
type valueEnd struct {
	at       int // what is before has been looked at
	depth    int
	inString bool
	ended    bool // the outermost bracket is closed
	other    bool // the text is no object or array, or goes on behind one
}

// reached reports whether text is a whole value. Each call gets the text of the
// last one with more at its end.
func (v *valueEnd) reached(text []byte) bool {
	tail := bytes.TrimRight(text, " \t\r\n")
	if len(tail) == 0 || tail[len(tail)-1] != '}' && tail[len(tail)-1] != ']' {
		return false // no need to look at it yet
	}
	for v.at < len(tail) && !v.other {
		if v.inString {
			v.skipString(tail)
			continue
		}
		v.bracket(tail[v.at])
		v.at++
	}
	return v.ended && !v.other
}

// skipString goes to the end of a string, or of the text.
func (v *valueEnd) skipString(text []byte) {
	i := bytes.IndexAny(text[v.at:], `"\`)
	switch {
	case i < 0:
		v.at = len(text)
	case text[v.at+i] == '"':
		v.at += i + 1
		v.inString = false
	default: // what is escaped may not have arrived: then it is skipped before it is looked at
		v.at += i + 2
	}
}

// bracket looks at one character outside of strings.
func (v *valueEnd) bracket(c byte) {
	switch c {
	case ' ', '\t', '\r', '\n':
	case '{', '[':
		v.other = v.ended
		v.depth++
	case '}', ']':
		v.depth--
		v.ended = v.depth == 0
		v.other = v.depth < 0
	default:
		v.other = v.depth == 0
		v.inString = c == '"'
	}
}

// holdsAnswer reports whether a whole body answers the request with the given id,
// or refuses one without naming it.
func holdsAnswer(text []byte, id int64) (yes bool) {
	if text = bytes.TrimSpace(text); len(text) > 0 && text[0] == '[' {
		jsonscan.EachItem(text, func(item []byte) bool {
			yes = item[0] == '{' && holdsAnswer(item, id)
			return !yes
		})
		return yes
	}
	env, ok := jsonrpc.ScanEnvelope(text)
	if !ok || env.Method != nil || env.Result == nil && env.Error == nil {
		return false
	}
	n, numeric := env.NumericID()
	return numeric && n == id || env.Error != nil && (env.ID == nil || string(env.ID) == "null")
}

// errorBody reads the body of an error status: the beginning of what it says, or
// all of what may be an answer.
func (s *session) errorBody(resp *http.Response, id int64, reserve func(int) bool) (body []byte, ended bool) {
	b := BodyReader{Body: resp.Body, Reserve: reserve}
	enough := completeAnswer(resp, id)
	ended, err := b.Read(MaxErrorBody, enough)
	if err == nil && !ended && len(b.Text) == MaxErrorBody && bytes.HasPrefix(bytes.TrimSpace(b.Text), []byte("{")) {
		ended, _ = b.Read(s.spec.Limits.MaxMessageBytes, enough)
	}
	return b.Text, ended
}

// detachPart is a part of a text that is kept without the rest: a part of less than
// half of the memory is copied, unless there is little to save.
func detachPart(part, whole []byte) []byte {
	if rest := cap(whole) - len(part); rest <= maxWaste || rest <= len(part) {
		return part
	}
	return bytes.Clone(part)
}
