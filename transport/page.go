package transport

import (
	"encoding/json"
	"errors"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

var errNoObject = errors.New("the answer is no JSON object")

// page is the result of one list request, found but not decoded.
type page struct {
	items  json.RawMessage // an array; nil if there is none
	cursor *string
	ttl    time.Duration
	lost   bool // there is a cursor, but it cannot be read
}

// readPage finds the list and the cursor in a result. "An empty nextCursor is
// a valid cursor" (2026-07-28, pagination), so only its absence, or null, is
// the end.
func readPage(raw json.RawMessage, member string) (p page, err error) {
	err = eachMember(raw, func(key string, value []byte) error {
		switch key {
		case member:
			if p.items = value; string(value) == "null" {
				p.items = nil
			}
		case "ttlMs":
			if ms, err := readNumber(value); err == nil && ms > 0 {
				p.ttl = time.Duration(min(ms, 1e9) * float64(time.Millisecond))
			}
		case "nextCursor":
			p.cursor = nil
			p.lost = json.Unmarshal(value, &p.cursor) != nil
		}
		return nil
	})
	if err == nil && p.items != nil && p.items[0] != '[' {
		err = errors.New("its member \"" + member + "\" is no array")
	}
	return p, err
}

// eachItem calls f for each element of an array, until f returns false.
func eachItem(array []byte, f func(item []byte) bool) {
	s := jsonscan.Scanner{B: array}
	s.Take('[')
	for s.Space(); !s.Take(']'); s.Space() {
		item, ok := s.Value()
		if !ok || !f(item) {
			return
		}
		s.Space()
		s.Take(',')
	}
}

// eachMember calls f for each member of an object, in order. The key may share
// the memory of text.
func eachMember(text []byte, f func(key string, value []byte) error) error {
	s := jsonscan.Scanner{B: text}
	s.Space()
	if !s.Take('{') {
		return errNoObject
	}
	s.Space()
	if s.Take('}') {
		return nil
	}
	for {
		quoted, escaped, ok := s.String()
		if !ok {
			return errNoObject
		}
		s.Space()
		if !s.Take(':') {
			return errNoObject
		}
		s.Space()
		value, ok := s.Value()
		if !ok {
			return errNoObject
		}
		if err := f(sharedString(quoted, escaped), value); err != nil {
			return err
		}
		s.Space()
		if s.Take(',') {
			s.Space()
			continue
		}
		if s.Take('}') {
			return nil
		}
		return errNoObject
	}
}

// sharedString is the text of a string of a page, in the page's own memory
// where that is possible: a page is kept whole by the schemas in it, and
// nobody writes to it any more.
func sharedString(quoted []byte, escaped bool) string {
	text := quoted[1 : len(quoted)-1]
	if escaped || !utf8.Valid(text) {
		return jsonscan.Unquote(quoted, escaped)
	}
	return unsafe.String(unsafe.SliceData(text), len(text)) //nolint:gosec // see above
}

// readString reads a value that must be a string, or null for "".
func readString(value []byte) (string, error) {
	if string(value) == "null" {
		return "", nil
	}
	s := jsonscan.Scanner{B: value}
	quoted, escaped, ok := s.String()
	if !ok || !s.AtEnd() {
		return "", errors.New("is no string")
	}
	return sharedString(quoted, escaped), nil
}
