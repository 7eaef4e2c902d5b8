package transport

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

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
	err = jsonscan.EachMember(raw, func(key string, value []byte) error {
		switch key {
		case member:
			if p.items = value; string(value) == "null" {
				p.items = nil
			}
		case "ttlMs":
			if ms, err := jsonscan.ReadNumber(value); err == nil && ms > 0 {
				p.ttl = time.Duration(min(ms, 1e9) * float64(time.Millisecond))
			}
		case "nextCursor":
			p.cursor = nil
			p.lost = json.Unmarshal(value, &p.cursor) != nil
		}
		return nil
	})
	if errors.Is(err, jsonscan.ErrNotObject) {
		err = errors.New("the answer is not a JSON object")
	}
	if err == nil && p.items != nil && p.items[0] != '[' {
		err = errors.New("its member \"" + member + "\" is no array")
	}
	return p, err
}
