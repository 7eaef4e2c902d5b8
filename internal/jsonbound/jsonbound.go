// Package jsonbound measures JSON text before values are built from it.
//
// A message of bounded length can still be expensive to decode: `{"a":0}` takes
// 7 bytes as text and about 400 bytes as a map. Check walks over the text once,
// builds no values, and stops when a limit is exceeded.
package jsonbound

import (
	"context"
	"fmt"
	"runtime"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// LargeBytes is the length from which text should be measured before it is decoded.
// Shorter text decodes to a few megabytes at most, in milliseconds.
const LargeBytes = 64 << 10

// Limits bound one JSON value. A field that is 0 sets no bound.
type Limits struct {
	// Elements is the largest number of values in it: members, entries, and the value
	// itself.
	Elements int
	// Depth is the largest number of levels of arrays and objects.
	Depth int
	// Bytes is the most memory of the decoded value, as estimated from the text.
	Bytes int
}

// Size is the result of Check. The counts are upper bounds for valid JSON.
type Size struct {
	Elements, Depth, Bytes int
}

// Kind says which limit was exceeded.
type Kind int

// These are the fields of [Limits].
const (
	KindElements Kind = iota + 1
	KindDepth
	KindBytes
)

// Error reports a value beyond a limit.
type Error struct {
	Kind  Kind
	Limit int
}

// Error implements error.
func (e *Error) Error() string {
	switch e.Kind {
	case KindElements:
		return fmt.Sprintf("more than %d values", e.Limit)
	case KindDepth:
		return fmt.Sprintf("more than %d levels of nesting", e.Limit)
	default:
		return fmt.Sprintf("more than %d bytes once decoded (estimated)", e.Limit)
	}
}

// These are sizes in memory, in bytes: an entry of a list or map with the value that
// its interface points to, the header of a string, a map without members, and its
// first group of members.
const (
	elementCost = 32
	stringCost  = 16
	mapCost     = 48
	groupCost   = 288
	// metaCost is that of a _meta: the decoder of the go-sdk makes each such map with room for 64 members.
	metaCost = 4800
)

// checkEvery is how many elements Check counts between checks of its context.
const checkEvery = 4096

// Check measures text. It returns a *[Error] if the text exceeds a limit, or the cause
// of ctx if ctx ends first. It does not validate: text that is not JSON is left to
// the decoder. ctx may be nil.
func Check(ctx context.Context, text []byte, l Limits) (Size, error) {
	w := counter{limits: l, scanner: jsonscan.Scanner{Text: text}, size: Size{Elements: 1, Bytes: elementCost}}
	err := w.walk(ctx)
	return w.size, err
}

type counter struct {
	limits  Limits
	scanner jsonscan.Scanner
	size    Size
	depth   int
}

func (w *counter) walk(ctx context.Context) error {
	next := checkEvery
	for w.scanner.Pos < len(w.scanner.Text) {
		switch w.scanner.Text[w.scanner.Pos] {
		case '"':
			text, escaped, ok := w.scanner.String()
			if !ok {
				return nil // invalid from here on
			}
			if escaped || string(text) == `"_meta"` {
				if w.scanner.SkipSpace(); w.scanner.Consume(':') {
					w.size.Bytes += metaCost
				}
			}
			w.size.Bytes += stringCost + len(text) - 2
			continue
		case '{':
			w.open()
			w.size.Bytes += mapCost
			if !w.empty('}') {
				w.size.Bytes += groupCost
			}
		case '[':
			w.open()
			w.empty(']')
		case '}', ']':
			w.depth--
		case ',':
			w.element()
		}
		w.scanner.Pos++
		if w.size.Elements < next {
			continue
		}
		next = w.size.Elements + checkEvery
		if err := w.exceeded(); err != nil {
			return err
		}
		if ctx != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		runtime.Gosched()
	}
	return w.exceeded()
}

func (w *counter) element() {
	w.size.Elements++
	w.size.Bytes += elementCost
}

// open counts a level, and the first element of the array or object.
func (w *counter) open() {
	w.depth++
	w.size.Depth = max(w.size.Depth, w.depth)
	w.element()
}

// empty reports whether the array or object that begins here is empty. Then it does
// not count the first element.
func (w *counter) empty(end byte) bool {
	i := w.scanner.Pos + 1
	for i < len(w.scanner.Text) && (w.scanner.Text[i] == ' ' || w.scanner.Text[i] == '\t' || w.scanner.Text[i] == '\r' || w.scanner.Text[i] == '\n') {
		i++
	}
	if i == len(w.scanner.Text) || w.scanner.Text[i] != end {
		return false
	}
	w.size.Elements--
	return true
}

func (w *counter) exceeded() error {
	switch {
	case w.limits.Elements > 0 && w.size.Elements > w.limits.Elements:
		return &Error{Kind: KindElements, Limit: w.limits.Elements}
	case w.limits.Depth > 0 && w.size.Depth > w.limits.Depth:
		return &Error{Kind: KindDepth, Limit: w.limits.Depth}
	case w.limits.Bytes > 0 && w.size.Bytes > w.limits.Bytes:
		return &Error{Kind: KindBytes, Limit: w.limits.Bytes}
	}
	return nil
}
