package httpbody

import "bytes"

// valueEnd finds the end of a JSON object or array in a text that grows. It only counts
// brackets outside of strings. Therefore it never mistakes the beginning of a valid value
// for the whole value, but it may accept a value that is not valid JSON.
type valueEnd struct {
	at       int // the text before this index has been examined
	depth    int
	inString bool
	ended    bool // the outermost bracket is closed
	invalid  bool // the text is not an object or array, or more text follows one
}

// reached reports whether text is a complete value. Each call must pass the text of the
// previous call with more text appended.
func (v *valueEnd) reached(text []byte) bool {
	tail := bytes.TrimRight(text, " \t\r\n")
	if len(tail) == 0 || tail[len(tail)-1] != '}' && tail[len(tail)-1] != ']' {
		return false // a value cannot end here, so the text need not be examined yet
	}
	for v.at < len(tail) && !v.invalid {
		if v.inString {
			v.skipString(tail)
			continue
		}
		v.scanByte(tail[v.at])
		v.at++
	}
	return v.ended && !v.invalid
}

// skipString advances to the end of a string, or to the end of the text.
func (v *valueEnd) skipString(text []byte) {
	i := bytes.IndexAny(text[v.at:], `"\`)
	switch {
	case i < 0:
		v.at = len(text)
	case text[v.at+i] == '"':
		v.at += i + 1
		v.inString = false
	default: // the escaped character may not have arrived yet; then at is beyond the text
		v.at += i + 2
	}
}

// scanByte examines one byte outside of strings.
func (v *valueEnd) scanByte(c byte) {
	switch c {
	case ' ', '\t', '\r', '\n':
	case '{', '[':
		v.invalid = v.ended
		v.depth++
	case '}', ']':
		v.depth--
		v.ended = v.depth == 0
		v.invalid = v.depth < 0
	default:
		v.invalid = v.depth == 0
		v.inString = c == '"'
	}
}
