package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/mcpvisor/mcpvisor/internal/jsonbound"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// A message within Limits.Line can hold millions of tiny values. Whatever is
// decoded here, or by the go-sdk, is measured first: the go-sdk decodes in
// goroutines that nothing can interrupt, and the end of a session waits for them.
var (
	// AnswerBounds are for answers to the go-sdk's own requests: initialize,
	// server/discover and ping. What they hold is kept as long as the session.
	AnswerBounds = jsonbound.Limits{Elements: 10_000, Depth: 500, Bytes: 8 << 20}
	// RequestBounds are for requests and notifications of the server.
	RequestBounds = jsonbound.Limits{Elements: 50_000, Depth: 500}
	// entryBounds are for one entry of a list, without its schemas, and
	// memberBounds for one of its members that can be of any size.
	entryBounds  = jsonbound.Limits{Elements: 10_000, Depth: 500, Bytes: 8 << 20}
	memberBounds = jsonbound.Limits{Elements: 10_000, Depth: 500, Bytes: 1 << 20}
)

// maxNotification is the longest notification, other than a log message, that is read.
const maxNotification = 1 << 20

// CheckBounds reports why a value must not be decoded.
func CheckBounds(text []byte, limits jsonbound.Limits) error {
	_, err := jsonbound.Check(context.Background(), text, limits)
	return err
}

// CheckParams is the answer to a request of the server's that holds too much;
// nil if it does not.
func CheckParams(params []byte) error {
	if len(params) < jsonbound.LargeBytes {
		return nil
	}
	if err := CheckBounds(params, RequestBounds); err != nil {
		return errInvalidParams("the parameters hold " + err.Error())
	}
	return nil
}

// slim is an entry of a list without its members that are too large: they cost
// themselves, and not the entry.
func (b *bounds) slim(item json.RawMessage) (json.RawMessage, error) {
	drops := b.drops
	err := jsonscan.EachMember(item, func(key string, value []byte) error {
		if isOpen(key) {
			b.fits(value)
		}
		return nil
	})
	if err == nil && b.drops > drops {
		item = withoutBroad(item)
	}
	if err := CheckBounds(item, entryBounds); err != nil {
		return nil, &entryError{err}
	}
	return item, nil
}

// isOpen reports whether a member of an entry can be of any size. The decoder
// ignores the case of names.
func isOpen(key string) bool {
	return strings.EqualFold(key, "_meta") || strings.EqualFold(key, "icons") || strings.EqualFold(key, "annotations")
}

// withoutBroad is an object without its open members that are too large.
func withoutBroad(item []byte) []byte {
	var kept []byte
	_ = jsonscan.EachMember(item, func(key string, value []byte) error { // it was read before
		if !isOpen(key) || CheckBounds(value, memberBounds) == nil {
			name, _ := json.Marshal(key) // a string always marshals
			kept = append(append(append(append(kept, ','), name...), ':'), value...)
		}
		return nil
	})
	return append(append([]byte{'{'}, bytes.TrimPrefix(kept, []byte{','})...), '}')
}

// entryError is about an entry that holds too much.
type entryError struct{ error }

func (e *entryError) Error() string { return "it holds " + e.error.Error() }

// fits reports whether a member of an entry may be decoded, and counts what that
// takes.
func (b *bounds) fits(value []byte) bool {
	size, err := jsonbound.Check(context.Background(), value, memberBounds)
	if err != nil {
		b.drops++
		return false
	}
	b.decoded += size.Bytes
	return true
}
