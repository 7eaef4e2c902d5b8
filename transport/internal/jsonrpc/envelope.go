package jsonrpc

import (
	"bytes"
	"context"
	"strconv"

	"github.com/mcpvisor/mcpvisor/internal/jsonbound"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// Envelope holds the members of one JSON-RPC message (JSON-RPC 2.0, sections 4 and 5). They
// are undecoded slices of the line, so they are valid as long as the line is. Absent
// members are nil.
type Envelope struct {
	ID     []byte
	Method []byte
	Result []byte
	Error  []byte
	Params []byte
	// Malformed reports that the line has the shape of an object but is not valid JSON.
	Malformed bool
}

// IsResponse reports whether the message is a response: an id with a result or an error.
func (e *Envelope) IsResponse() bool {
	return e.Method == nil && e.ID != nil && (e.Result != nil || e.Error != nil)
}

// IsMessage reports whether the object is a JSON-RPC message. The member "jsonrpc" may be
// missing, because some servers omit it.
func (e *Envelope) IsMessage() bool { return e.Method != nil || e.IsResponse() }

// NumericID reads the id as an integer. A string with a number counts as that number,
// because some servers answer with the id as a string.
func (e *Envelope) NumericID() (int64, bool) {
	id := e.ID
	if len(id) > 1 && id[0] == '"' {
		id = id[1 : len(id)-1]
	}
	n, err := strconv.ParseInt(string(id), 10, 64)
	if err != nil {
		// JSON allows 1.099511627776e+12 for an integer (RFC 8259, section 6).
		f, ferr := strconv.ParseFloat(string(id), 64)
		if ferr != nil || f != float64(int64(f)) {
			return 0, false
		}
		return int64(f), true
	}
	return n, true
}

// ScanEnvelope finds the members of a JSON-RPC message without decoding their values. If a
// member occurs twice, the last one counts, as in encoding/json. ok is false if the line
// is not one JSON object from end to end. A line with the shape of an object that is not
// valid JSON is marked as malformed; its id still tells which call has failed.
func ScanEnvelope(line []byte) (e Envelope, ok bool) {
	if e.scan(line, false) {
		return e, true
	}
	e = Envelope{Malformed: true}
	ok = e.scan(line, true)
	return e, ok
}

// scan reads the members of an object. With loose the values need not be valid JSON.
func (e *Envelope) scan(line []byte, loose bool) bool {
	s := jsonscan.Scanner{Text: line}
	s.SkipSpace()
	if !s.Consume('{') {
		return false
	}
	s.SkipSpace()
	if s.Consume('}') {
		return s.AtEnd()
	}
	for {
		key, escaped, ok := s.MemberName()
		if !ok {
			return false
		}
		var text []byte
		if loose {
			text, ok = looseValue(&s)
		} else {
			text, ok = s.Value()
		}
		if !ok {
			return false
		}
		e.set(key, escaped, text)
		s.SkipSpace()
		if s.Consume(',') {
			s.SkipSpace()
			continue
		}
		return s.Consume('}') && s.AtEnd()
	}
}

// set stores the value of a member that belongs to the envelope.
func (e *Envelope) set(key []byte, escaped bool, value []byte) {
	if escaped {
		key = []byte(`"` + jsonscan.Unquote(key, true) + `"`)
	}
	switch string(key) {
	case `"id"`:
		e.ID = value
	case `"method"`:
		e.Method = value
	case `"result"`:
		e.Result = value
	case `"params"`:
		e.Params = value
	case `"error"`:
		// Some servers send both result and error, one of them null.
		if e.Error = value; string(value) == "null" {
			e.Error = nil
		}
	}
}

// looseString consumes a string up to its closing quote, also with invalid escapes and
// control characters in it.
func looseString(s *jsonscan.Scanner) bool {
	start := s.Pos
	for s.Pos++; s.Pos < len(s.Text); {
		n := bytes.IndexByte(s.Text[s.Pos:], '"')
		if n < 0 {
			break
		}
		s.Pos += n + 1
		slashes := 0
		for j := s.Pos - 2; j > start && s.Text[j] == '\\'; j-- {
			slashes++
		}
		if slashes%2 == 0 {
			return true
		}
	}
	return false
}

// looseValue consumes text up to the end of a value. It follows strings and counts
// brackets, and does not compare the kinds of opening and closing brackets.
func looseValue(s *jsonscan.Scanner) ([]byte, bool) {
	start, depth := s.Pos, 0
	for s.Pos < len(s.Text) {
		switch c := s.Text[s.Pos]; c {
		case '"':
			if !looseString(s) {
				return nil, false
			}
		case '{', '[':
			depth++
			s.Pos++
		case '}', ']':
			if depth == 0 {
				return s.Text[start:s.Pos], s.Pos > start
			}
			depth--
			s.Pos++
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return s.Text[start:s.Pos], s.Pos > start
			}
			s.Pos++
			continue
		default:
			s.Pos++
			continue
		}
		if depth == 0 {
			return s.Text[start:s.Pos], true
		}
	}
	return nil, false
}

// IsVersion2 reports whether an object has the member "jsonrpc":"2.0".
func IsVersion2(line []byte) bool { return string(jsonscan.Member(line, "jsonrpc")) == `"2.0"` }

// FindID returns the id of an oversize answer of which only the two ends were kept; see
// ClipEnds. It looks for an "id" member at the outermost level, before the result or after
// it. The session uses the id to fail the one call whose answer was too long.
func FindID(head, tail []byte) (int64, bool) {
	var front Envelope
	front.scan(head, true) // false, because the object is cut off; the members before that count
	if front.Method != nil {
		return 0, false
	}
	if id, ok := front.NumericID(); ok {
		return id, true
	}
	for end := len(tail); ; {
		if end = bytes.LastIndex(tail[:end], []byte(`"id"`)); end < 0 {
			return 0, false
		}
		// An "id" at the outermost level is followed by members up to the end of the message.
		// An "id" inside of the result is not.
		var rest Envelope
		if !rest.scan(append([]byte{'{'}, tail[end:]...), true) {
			continue
		}
		if id, ok := rest.NumericID(); ok {
			return id, true
		}
	}
}

// A message within Limits.MaxMessageBytes can hold millions of tiny values. Each value is
// measured before it is decoded, here or by the go-sdk. The go-sdk decodes in goroutines
// that cannot be interrupted, and the end of a session waits for them.
var (
	// AnswerBounds are for answers to requests of the go-sdk: initialize,
	// server/discover and ping. The session keeps what they hold until its end.
	AnswerBounds = jsonbound.Limits{Elements: 10_000, Depth: 500, Bytes: 8 << 20}
	// RequestBounds are for requests and notifications that the server sends.
	RequestBounds = jsonbound.Limits{Elements: 50_000, Depth: 500}
)

// CheckBounds returns why a value must not be decoded; nil if it may be.
func CheckBounds(text []byte, limits jsonbound.Limits) error {
	_, err := jsonbound.Check(context.Background(), text, limits)
	return err
}
