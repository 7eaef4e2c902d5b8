package httpbody

import "bytes"

// valueEnd finds the end of a JSON object or array in a text that grows. It only
// counts brackets outside of strings. So it never takes the beginning of a valid
// value for the whole value, though it may accept an invalid one.
type valueEnd struct {
	at       int // the text before this index has been examined
	depth    int
	inString bool
	ended    bool // the outermost bracket is closed
	other    bool // the text is no object or array, or continues behind one
}

// reached reports whether text is a complete value. Each call gets the text of the
// call before it, with more at its end.
func (v *valueEnd) reached(text []byte) bool {
	tail := bytes.TrimRight(text, " \t\r\n")
	if len(tail) == 0 || tail[len(tail)-1] != '}' && tail[len(tail)-1] != ']' {
		return false // a value cannot end here, so nothing is examined yet
	}
	for v.at < len(tail) && !v.other {
		if v.inString {
			v.skipString(tail)
			continue
		}
		v.bracket(tail[v.at])
		v.at++
	}
	return v.ended && !v.other
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
	default: // the escaped character may not have arrived yet; at then points behind it
		v.at += i + 2
	}
}

// bracket examines one character outside of strings.
func (v *valueEnd) bracket(c byte) {
	switch c {
	case ' ', '\t', '\r', '\n':
	case '{', '[':
		v.other = v.ended
		v.depth++
	case '}', ']':
		v.depth--
		v.ended = v.depth == 0
		v.other = v.depth < 0
	default:
		v.other = v.depth == 0
		v.inString = c == '"'
	}
}
