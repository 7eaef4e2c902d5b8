// Package canonical compares JSON by what it says. The order of the members of an object, white space
// and escapes in strings do not count. The order of arrays and the text of numbers do: 1 and 1.0 differ,
// as do 9007199254740993 and 9007199254740992. Digests of what a peer has sent are made of the same form.
package canonical

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/plainjson"
)

// Bounds of a text that has a canonical form. It is parsed once, into 16 bytes for each value and name, and
// its names are sorted. jsonscan bounds the nesting, at 1,000 levels.
const (
	maxBytes  = 32 << 20
	maxValues = 1 << 20
)

// Append appends the canonical form of a JSON text to b: without white space, and with the members of
// each object sorted by their names. All members of one name are kept in their order, because readers
// disagree about which of them counts. Text that is not JSON, or exceeds the bounds, is its own form.
func Append(b, text []byte) []byte {
	var t jsonscan.Tree
	if len(text) > maxBytes || t.Parse(context.Background(), text, maxValues) != nil {
		return append(b, text...)
	}
	return appendValue(slices.Grow(b, len(text)), &t, 0)
}

// Equal reports whether two texts have the same canonical form.
func Equal(x, y []byte) bool {
	return bytes.Equal(x, y) || bytes.Equal(Append(nil, x), Append(nil, y))
}

// Digest is a SHA-256 of a canonical form.
type Digest [sha256.Size]byte

// Sum returns the digest of the canonical form of a text.
func Sum(text []byte) Digest { return sha256.Sum256(Append(nil, text)) }

// member is one member of an object: its name as text, and its number in the tree.
type member struct {
	name string
	at   int
}

func appendValue(b []byte, t *jsonscan.Tree, i int) []byte {
	end := t.Next(i)
	switch t.First(i) {
	case '"':
		return appendString(b, t, i)
	case '[':
		b = append(b, '[')
		for at := i + 1; at < end; at = t.Next(at) {
			b = appendValue(separate(b, '['), t, at)
		}
		return append(b, ']')
	case '{':
		var members []member
		for at := i + 1; at < end; at = t.Next(at + 1) {
			members = append(members, member{t.String(at), at})
		}
		slices.SortFunc(members, func(x, y member) int { return cmp.Or(strings.Compare(x.name, y.name), x.at-y.at) })
		b = append(b, '{')
		for _, m := range members {
			b = append(appendString(separate(b, '{'), t, m.at), ':')
			b = appendValue(b, t, m.at+1)
		}
		return append(b, '}')
	}
	return append(b, t.Text(i)...)
}

// separate appends a comma, unless the array or object has just begun.
func separate(b []byte, open byte) []byte {
	if b[len(b)-1] == open {
		return b
	}
	return append(b, ',')
}

// appendString appends a string with the escapes that it needs. One that is not Unicode, such as half of a
// surrogate pair, stays as it is written: decoding would make it equal to others.
func appendString(b []byte, t *jsonscan.Tree, i int) []byte {
	text := t.String(i)
	if strings.ContainsRune(text, utf8.RuneError) {
		return append(b, t.Text(i)...)
	}
	return plainjson.AppendString(b, text)
}
