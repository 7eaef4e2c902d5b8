// Package plainjson encodes values that JSON decodes to, without reflection: maps, lists,
// text, numbers, booleans and nil. Most arguments of tools are such values. The result is
// the JSON value that encoding/json would make of them; other values are left to
// encoding/json.
package plainjson

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// maxDepth is how deep values may be nested. A map that contains itself is deeper than any
// bound.
const maxDepth = 32

// Append appends a value as JSON. ok is false if the value is not plain, or nested more than
// 32 levels deep; then the result is of no use. Members of maps are sorted by their names.
func Append(b []byte, v any) (_ []byte, ok bool) { return appendValue(b, v, maxDepth) }

// appendValue is [Append] for values that are nested up to depth levels.
func appendValue(b []byte, v any, depth int) (_ []byte, ok bool) {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), true
	case string:
		return AppendString(b, v), true
	case bool:
		return strconv.AppendBool(b, v), true
	case int:
		return strconv.AppendInt(b, int64(v), 10), true
	case int64:
		return strconv.AppendInt(b, v, 10), true
	case float64:
		return appendFloat(b, v)
	case map[string]any:
		return appendObject(b, v, depth)
	case []any:
		if depth == 0 || v == nil {
			return b, false
		}
		b = append(b, '[')
		for i, entry := range v {
			if i > 0 {
				b = append(b, ',')
			}
			if b, ok = appendValue(b, entry, depth-1); !ok {
				return b, false
			}
		}
		return append(b, ']'), true
	}
	return b, false
}

// appendObject is appendValue for a map. The members are sorted by their names, as in
// encoding/json, so that equal arguments give equal text.
func appendObject(b []byte, members map[string]any, depth int) (_ []byte, ok bool) {
	if depth == 0 || members == nil {
		return b, false
	}
	if len(members) == 1 { // nothing to sort
		for name, v := range members {
			b = append(AppendString(append(b, '{'), name), ':')
			b, ok = appendValue(b, v, depth-1)
		}
		return append(b, '}'), ok
	}
	var few [8]string // most tools have fewer parameters
	names := few[:0]
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	b = append(b, '{')
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(AppendString(b, name), ':')
		if b, ok = appendValue(b, members[name], depth-1); !ok {
			return b, false
		}
	}
	return append(b, '}'), true
}

// maxExactFloat is up to where a float64 holds every integer.
const maxExactFloat = 1 << 53

// appendFloat is appendValue for a number. JSON has neither infinity nor NaN, and
// encoding/json words the error.
func appendFloat(b []byte, f float64) (_ []byte, ok bool) {
	if n := int64(f); float64(n) == f && -maxExactFloat < n && n < maxExactFloat && !(n == 0 && math.Signbit(f)) {
		return strconv.AppendInt(b, n, 10), true
	}
	text, err := json.Marshal(f)
	return append(b, text...), err == nil
}

// AppendString appends a JSON string. Text that needs escapes is left to encoding/json, without
// its escapes for HTML. It escapes the line separators U+2028 and U+2029, too: some servers end
// a line there.
func AppendString(b []byte, text string) []byte {
	if isPlain(text) {
		return append(append(append(b, '"'), text...), '"')
	}
	var quoted bytes.Buffer
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil { // a string always encodes
		return append(b, `""`...)
	}
	return append(b, bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))...)
}

// isPlain reports whether a text is ASCII that a JSON string has as it is.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < 0x20 || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
