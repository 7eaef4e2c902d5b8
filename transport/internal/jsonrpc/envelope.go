package jsonrpc

import (
	"bytes"
	"strconv"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// Envelope is the outside of a JSON-RPC message: where its members stand in
// the line. Absent members are nil.
type Envelope struct {
	ID     []byte
	Method []byte
	Result []byte
	Error  []byte
	Params []byte
	// Malformed: the line as a whole is not valid JSON.
	Malformed bool
}

// IsResponse reports whether the message answers something.
func (e *Envelope) IsResponse() bool {
	return e.Method == nil && e.ID != nil && (e.Result != nil || e.Error != nil)
}

// IsMessage reports whether this is JSON-RPC at all, by the loosest reading
// that real servers need: "jsonrpc" may be missing.
func (e *Envelope) IsMessage() bool { return e.Method != nil || e.IsResponse() }

// NumericID reads the id as an integer. Some servers give numbers back as
// strings; both are understood.
func (e *Envelope) NumericID() (int64, bool) {
	id := e.ID
	if len(id) > 1 && id[0] == '"' {
		id = id[1 : len(id)-1]
	}
	n, err := strconv.ParseInt(string(id), 10, 64)
	if err != nil {
		// 1.099511627776e+12 is a legal way to write an integer.
		f, ferr := strconv.ParseFloat(string(id), 64)
		if ferr != nil || f != float64(int64(f)) {
			return 0, false
		}
		return int64(f), true
	}
	return n, true
}

// ScanEnvelope finds the members of a JSON-RPC message without building
// anything from their values. Of a member that occurs twice the last one
// counts, as in encoding/json. ok is false if the line is not one JSON object
// from end to end. A line that has the shape of one but is not valid JSON is
// marked as malformed: it can still say which call it fails.
func ScanEnvelope(line []byte) (e Envelope, ok bool) {
	if e.scan(line, false) {
		return e, true
	}
	e = Envelope{Malformed: true}
	ok = e.scan(line, true)
	return e, ok
}

// scan walks over the members of an object. Read loosely, their values need
// not be valid.
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
		key, escaped, ok := s.String()
		if !ok {
			return false
		}
		s.SkipSpace()
		if !s.Consume(':') {
			return false
		}
		s.SkipSpace()
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
		if e.Error = value; string(value) == "null" { // some servers send both, one of them null
			e.Error = nil
		}
	}
}

// looseString consumes a string up to its closing quote, whatever is in it.
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

// looseValue consumes what stands where a value should: it only follows
// strings and counts brackets, without matching them by kind.
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

// IsVersion2 reports whether an object says that it is JSON-RPC.
func IsVersion2(line []byte) (yes bool) {
	_ = jsonscan.EachMember(line, func(key string, value []byte) error {
		if key == "jsonrpc" {
			yes = string(value) == `"2.0"`
		}
		return nil
	})
	return yes
}

// FindID guesses the id of an answer of which only the two ends are known, by
// looking for an "id" member at the outermost level: in front of the result,
// or behind it. It is used to fail the one call whose answer was too long.
func FindID(head, tail []byte) (int64, bool) {
	var front Envelope
	front.scan(head, true) // as far as it is known
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
		// A member of the message is followed by members to its very end.
		var rest Envelope
		if !rest.scan(append([]byte{'{'}, tail[end:]...), true) {
			continue
		}
		if id, ok := rest.NumericID(); ok {
			return id, true
		}
	}
}
