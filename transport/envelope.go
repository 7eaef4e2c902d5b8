package transport

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// envelope is the outside of a JSON-RPC message: where its members stand in
// the line. Absent members are nil.
type envelope struct {
	id     []byte
	method []byte
	result []byte
	errorm []byte
}

// isResponse reports whether the message answers something.
func (e *envelope) isResponse() bool {
	return e.method == nil && e.id != nil && (e.result != nil || e.errorm != nil)
}

// isMessage reports whether this is JSON-RPC at all, by the loosest reading
// that real servers need: "jsonrpc" may be missing.
func (e *envelope) isMessage() bool { return e.method != nil || e.isResponse() }

// numericID reads the id as an integer. Some servers give numbers back as
// strings; both are understood.
func (e *envelope) numericID() (int64, bool) {
	id := e.id
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

// scanEnvelope finds the members of a JSON-RPC message without parsing their
// values: it only follows strings and brackets. Of a member that occurs twice
// the last one counts, as in encoding/json. ok is false if the line is not one
// JSON object from end to end; the values themselves are not validated.
func scanEnvelope(line []byte) (e envelope, ok bool) {
	s := scanner{b: line}
	s.space()
	if !s.take('{') {
		return e, false
	}
	s.space()
	if s.take('}') {
		return e, s.atEnd()
	}
	for {
		key, good := s.str()
		if !good {
			return e, false
		}
		s.space()
		if !s.take(':') {
			return e, false
		}
		s.space()
		value, good := s.value()
		if !good {
			return e, false
		}
		e.set(key, value)
		s.space()
		if s.take(',') {
			s.space()
			continue
		}
		if !s.take('}') {
			return e, false
		}
		return e, s.atEnd()
	}
}

func (e *envelope) set(key, value []byte) {
	if bytes.IndexByte(key, '\\') >= 0 {
		var plain string
		if json.Unmarshal(key, &plain) != nil {
			return
		}
		key = []byte(`"` + plain + `"`)
	}
	switch string(key) {
	case `"id"`:
		e.id = value
	case `"method"`:
		e.method = value
	case `"result"`:
		e.result = value
	case `"error"`:
		if string(value) != "null" { // some servers send both, one of them null
			e.errorm = value
		}
	}
}

// scanner walks over JSON text.
type scanner struct {
	b []byte
	i int
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\r', '\n':
			s.i++
		default:
			return
		}
	}
}

func (s *scanner) take(c byte) bool {
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

func (s *scanner) atEnd() bool {
	s.space()
	return s.i == len(s.b)
}

// str consumes a string and returns it with its quotes.
func (s *scanner) str() ([]byte, bool) {
	start := s.i
	if !s.take('"') {
		return nil, false
	}
	for s.i < len(s.b) {
		n := bytes.IndexByte(s.b[s.i:], '"')
		if n < 0 {
			break
		}
		s.i += n + 1
		slashes := 0
		for j := s.i - 2; j > start && s.b[j] == '\\'; j-- {
			slashes++
		}
		if slashes%2 == 0 {
			return s.b[start:s.i], true
		}
	}
	return nil, false
}

// value consumes any value. Brackets are counted, not matched by kind.
func (s *scanner) value() ([]byte, bool) {
	start, depth := s.i, 0
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case '"':
			if _, ok := s.str(); !ok {
				return nil, false
			}
		case '{', '[':
			depth++
			s.i++
		case '}', ']':
			if depth == 0 {
				return s.b[start:s.i], s.i > start
			}
			depth--
			s.i++
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return s.b[start:s.i], s.i > start
			}
			s.i++
			continue
		default:
			s.i++
			continue
		}
		if depth == 0 {
			return s.b[start:s.i], true
		}
	}
	return nil, false
}

// edgeID guesses the id of an answer of which only the two ends are known, by
// looking for an "id" member at the outermost level of either. It is used to
// fail the one call whose answer was too long.
func edgeID(head, tail []byte) (int64, bool) {
	for _, part := range [][]byte{head, tail} {
		for from := len(part); from > 0; {
			i := bytes.LastIndex(part[:from], []byte(`"id"`))
			if i < 0 {
				break
			}
			from = i
			s := scanner{b: part, i: i + len(`"id"`)}
			s.space()
			if !s.take(':') {
				continue
			}
			s.space()
			if v, ok := s.value(); ok {
				e := envelope{id: v}
				if id, ok := e.numericID(); ok && id >= laneBase {
					return id, true
				}
			}
		}
	}
	return 0, false
}
