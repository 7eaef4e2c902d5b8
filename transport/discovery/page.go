package discovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// page is the result of one list request. Its entries are not decoded.
type page struct {
	items     json.RawMessage // an array; nil if it is missing or null
	cursor    *string         // of the next page; nil on the last one
	badCursor bool            // there is one, but it is not a string
	ttl       time.Duration   // "ttlMs" (2026-07-28); 0 if the server does not say
}

// readPage finds the list and the cursor in a result. "An empty nextCursor is a valid
// cursor" (2026-07-28, pagination), so only its absence, or null, is the end.
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
			p.badCursor = json.Unmarshal(value, &p.cursor) != nil
		}
		return nil
	})
	if errors.Is(err, jsonscan.ErrNotObject) {
		err = errors.New("the answer is not a JSON object")
	}
	if err == nil && p.items != nil && p.items[0] != '[' {
		err = fmt.Errorf("its member %q is not an array", member)
	}
	return p, err
}
