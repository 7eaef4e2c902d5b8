package discovery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/transport"
)

// listKind is one of the four lists of the protocol.
type listKind struct {
	method string
	member string // of the result; also the name in warnings
	lists  catalog.Lists
	// implied: no capability declares the list. Then a server need not know its method.
	implied bool
}

var (
	toolsList     = listKind{method: "tools/list", member: "tools", lists: catalog.ListTools}
	resourcesList = listKind{method: "resources/list", member: "resources", lists: catalog.ListResources}
	templatesList = listKind{method: "resources/templates/list", member: "resourceTemplates", lists: catalog.ListResources, implied: true}
	promptsList   = listKind{method: "prompts/list", member: "prompts", lists: catalog.ListPrompts}
)

// listReader follows one list through its pages.
type listReader struct {
	d       *discoverer
	kind    listKind
	add     func(item json.RawMessage, b *bounds) error
	bounds  bounds
	items   int // entries so far
	skipped int // entries that were left out
}

// list reads one list. add decodes one entry and keeps it; its error is why the entry
// is left out.
func (d *discoverer) list(kind listKind, add func(item json.RawMessage, b *bounds) error) {
	d.asked++
	l := &listReader{d: d, kind: kind, add: add, bounds: bounds{decoded: &d.decoded}}
	l.readPages()
	if more := l.skipped - catalog.WarningExamples; more > 0 {
		l.warn("%d more %s left out", more, plural(more, "entry is", "entries are"))
	}
	if n := l.bounds.cut; n > 0 {
		l.warn("%d %s cut: at most %d and %d bytes are kept", n,
			plural(n, "title or description was too long and is", "titles or descriptions were too long and are"), maxTitle, maxDescription)
	}
	if n := l.bounds.repaired; n > 0 {
		l.warn("%d %s an empty list where the schema needs an object; it is read as {}", n, plural(n, "tool has", "tools have"))
	}
	if n := l.bounds.dropped; n > 0 {
		l.warn("%d %s left out: _meta, icons and annotations may each hold %d values and take %d bytes", n,
			plural(n, "member of an entry was too large and is", "members of entries were too large and are"), memberLimits.Elements, memberLimits.Bytes)
	}
}

// warn adds a warning about this list.
func (l *listReader) warn(format string, args ...any) {
	l.d.warn(l.kind.member, format, args...)
}

// readPages requests one page after the other, until there is no nextCursor: clients
// should "treat a missing nextCursor as the end of results" (MCP, pagination). It stops
// sooner where a limit is reached, and where a cursor comes twice.
func (l *listReader) readPages() {
	seen := map[string]bool{}
	var cursor *string
	for number := 1; ; number++ {
		var params json.RawMessage
		if cursor != nil {
			params, _ = json.Marshal(map[string]string{"cursor": *cursor}) // a string always marshals
		}
		raw, err := l.d.session.Request(l.d.ctx, transport.Request{Method: l.kind.method, Params: params})
		var p page
		if err == nil {
			p, err = readPage(raw, l.kind.member)
		}
		if err != nil {
			l.fail(number, err)
			return
		}
		if ttl := l.d.ttl[l.kind.lists]; p.ttl > 0 && (ttl == 0 || p.ttl < ttl) {
			l.d.ttl[l.kind.lists] = p.ttl
		}
		full, tooLong := l.readItems(raw, p)
		cursor = p.cursor
		switch {
		case full:
			l.warn("more than %s; the rest is left out (raise Limits.MaxItems to take more)", countEntries(l.d.limits.MaxItems))
			return
		case tooLong:
			l.warn("the lists are longer than %d bytes together; the rest is left out (raise Limits.MaxCatalogBytes to take more)", l.d.limits.MaxCatalogBytes)
			return
		case p.badCursor:
			l.warn("the cursor on page %d is not a string; the rest is left out", number)
			return
		case cursor == nil:
			return
		case seen[*cursor]:
			l.warn("the server repeats its cursor; stopped after %s", display.Count(number, "page"))
			return
		case number >= l.d.limits.MaxPages:
			l.warn("more than %s; the rest is left out (raise Limits.MaxPages to take more)", display.Count(l.d.limits.MaxPages, "page"))
			return
		}
		seen[*cursor] = true
	}
}

// readItems decodes the entries of one page and counts what the catalog keeps of it.
//
// An entry may share the memory of its page (schemas do), so usually the whole page
// counts. A page that does not fit, or that is less than half list, is not kept:
// its entries are copied as long as there is room.
func (l *listReader) readItems(raw json.RawMessage, p page) (full, tooLong bool) {
	whole := len(raw) <= l.d.room() && len(p.items) >= len(raw)/2
	if whole {
		l.d.kept += len(raw)
	}
	jsonscan.EachItem(p.items, func(item []byte) bool {
		if full = l.items >= l.d.limits.MaxItems; full || l.d.ctx.Err() != nil {
			return false
		}
		if tooLong = l.d.room() < 0; tooLong {
			return false
		}
		if !whole {
			if tooLong = len(item) > l.d.room(); tooLong {
				return false
			}
			l.d.kept += len(item)
			item = bytes.Clone(item)
		}
		l.items++
		if err := l.add(item, &l.bounds); err != nil {
			if l.skipped++; l.skipped <= catalog.WarningExamples {
				l.warn("entry %d is left out: %v", l.items, err)
			}
		}
		return true
	})
	if p.cursor != nil && !whole { // readPages remembers it
		l.d.kept += len(*p.cursor)
		tooLong = tooLong || l.d.kept > l.d.limits.MaxCatalogBytes
	}
	return full, tooLong
}

// room is how many bytes the lists may still take; negative if they take too many.
func (d *discoverer) room() int { return d.limits.MaxCatalogBytes - d.kept - d.decoded }

// fail records that a page, and what follows it, is missing. "Method not found" on a
// list that no capability declares is not a failure.
func (l *listReader) fail(page int, err error) {
	if l.kind.implied && isMethodNotFound(err) {
		l.d.asked--
		return
	}
	if page == 1 {
		l.d.failed++
	}
	l.d.incomplete |= l.kind.lists
	l.d.lastErr = fmt.Errorf("%s: %w", l.kind.method, err)
	if isOutage(err) {
		l.d.outage = l.d.lastErr
	}
	l.warn("page %d failed: %v", page, err)
}

func countEntries(n int) string { return fmt.Sprintf("%d %s", n, plural(n, "entry", "entries")) }

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

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
