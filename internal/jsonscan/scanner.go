package jsonscan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// MaxDepth is how deep arrays and objects may be nested, as in encoding/json.
const MaxDepth = 10000

// Scanner is a position in JSON text. Make one with Scanner{Text: text}. It is not safe
// for concurrent use.
type Scanner struct {
	// Text is the JSON text.
	Text []byte
	// Pos is the position in Text.
	Pos int
	// MaxDepth is how deep values may be nested. 0 means the constant MaxDepth.
	MaxDepth int
}

// SkipSpace skips white space.
func (s *Scanner) SkipSpace() {
	for s.Pos < len(s.Text) {
		switch s.Text[s.Pos] {
		case ' ', '\t', '\r', '\n':
			s.Pos++
		default:
			return
		}
	}
}

// Consume consumes the next byte if it is c, and reports whether it was.
func (s *Scanner) Consume(c byte) bool {
	if s.Pos < len(s.Text) && s.Text[s.Pos] == c {
		s.Pos++
		return true
	}
	return false
}

// AtEnd reports whether only white space is left.
func (s *Scanner) AtEnd() bool {
	s.SkipSpace()
	return s.Pos == len(s.Text)
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special sets the high bit of the first byte of a word that is a quote, a backslash
// or a control character. Bits of later bytes may be wrong.
func special(x uint64) uint64 { return marks(x) & highs }

// marks is special before other bits are cleared. The bytes that it looks for are ASCII,
// so that one mask serves all three.
func marks(x uint64) uint64 {
	return ((x ^ (ones * '"') - ones) | (x ^ (ones * '\\') - ones) | (x - ones*0x20)) &^ x
}

// plainChunk is how many bytes [Scanner.String] looks at together.
const plainChunk = 32

// isPlain reports whether none of the first plainChunk bytes of b is special.
func isPlain(b []byte) bool {
	b = b[:plainChunk]
	return (marks(binary.LittleEndian.Uint64(b))|marks(binary.LittleEndian.Uint64(b[8:]))|
		marks(binary.LittleEndian.Uint64(b[16:]))|marks(binary.LittleEndian.Uint64(b[24:])))&highs == 0
}

// String consumes a string. It returns the string with its quotes, and whether it has
// escapes.
func (s *Scanner) String() (text []byte, escaped, ok bool) {
	start := s.Pos
	if !s.Consume('"') {
		return nil, false, false
	}
	b, i := s.Text, s.Pos
	for {
		for i+plainChunk <= len(b) && isPlain(b[i:]) {
			i += plainChunk
		}
		for i+8 <= len(b) {
			if m := special(binary.LittleEndian.Uint64(b[i:])); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		if i >= len(b) {
			return nil, escaped, false
		}
		switch c := b[i]; {
		case c == '"':
			s.Pos = i + 1
			return b[start:s.Pos], escaped, true
		case c == '\\':
			escaped = true
			n := escapeLen(b[i:])
			if n == 0 {
				return nil, true, false
			}
			i += n
		case c < 0x20:
			return nil, escaped, false
		default:
			i++
		}
	}
}

// KnownString is [Scanner.String] for text that is known to be valid JSON. It need not look
// at every byte of a string without escapes, which is several times as fast.
func (s *Scanner) KnownString() (text []byte, escaped, ok bool) {
	if s.Pos >= len(s.Text) || s.Text[s.Pos] != '"' {
		return nil, false, false
	}
	rest := s.Text[s.Pos+1:]
	n := bytes.IndexByte(rest, '"')
	if n < 0 {
		return nil, false, false
	}
	if bytes.IndexByte(rest[:n], '\\') >= 0 {
		return s.String()
	}
	start := s.Pos
	s.Pos += n + 2
	return s.Text[start:s.Pos], false, true
}

// escapeLen returns the length of the escape at the start of b, or 0 if it is invalid.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) < 6 {
			return 0
		}
		for _, c := range b[2:6] {
			if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
				return 0
			}
		}
		return 6
	}
	return 0
}

// Value consumes any value and returns its text. ok is false if the text at
// the position is not a valid value.
func (s *Scanner) Value() (text []byte, ok bool) {
	start := s.Pos
	if !s.value() {
		return nil, false
	}
	return s.Text[start:s.Pos], true
}

// value is Value without the text. It uses a stack of bits and no recursion, so that deeply
// nested text cannot overflow the stack of the goroutine.
func (s *Scanner) value() bool {
	var open bracketStack
	most := MaxDepth
	if s.MaxDepth > 0 {
		most = s.MaxDepth
	}
	for {
		if s.Pos >= len(s.Text) {
			return false
		}
		switch c := s.Text[s.Pos]; c {
		case '"':
			if _, _, ok := s.String(); !ok {
				return false
			}
		case '{', '[':
			if open.depth == most {
				return false
			}
			s.Pos++
			s.SkipSpace()
			if s.Consume(c + 2) { // '}' is '{'+2 and ']' is '['+2
				break
			}
			open.push(c == '{')
			if c == '{' {
				if _, _, ok := s.MemberName(); !ok {
					return false
				}
			}
			continue
		default:
			if !s.scalar() {
				return false
			}
		}
		for { // a value is complete
			if open.depth == 0 {
				return true
			}
			s.SkipSpace()
			if s.Consume(',') {
				s.SkipSpace()
				if open.inObject() {
					if _, _, ok := s.MemberName(); !ok {
						return false
					}
				}
				break
			}
			end := byte(']')
			if open.inObject() {
				end = '}'
			}
			if !s.Consume(end) {
				return false
			}
			open.depth--
		}
	}
}

// MemberName consumes the name of a member and the colon after it. The results are those
// of String.
func (s *Scanner) MemberName() (quoted []byte, escaped, ok bool) {
	quoted, escaped, ok = s.String()
	if !ok {
		return nil, false, false
	}
	s.SkipSpace()
	if !s.Consume(':') {
		return nil, false, false
	}
	s.SkipSpace()
	return quoted, escaped, true
}

// scalar consumes a number, true, false or null.
func (s *Scanner) scalar() bool {
	switch s.Text[s.Pos] {
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	return s.number()
}

// word consumes w and reports whether it was there.
func (s *Scanner) word(w string) bool {
	if len(s.Text)-s.Pos < len(w) || string(s.Text[s.Pos:s.Pos+len(w)]) != w {
		return false
	}
	s.Pos += len(w)
	return true
}

// number consumes a number (RFC 8259, section 6).
func (s *Scanner) number() bool {
	s.Consume('-')
	if !s.Consume('0') && s.digits() == 0 {
		return false
	}
	if s.Consume('.') && s.digits() == 0 {
		return false
	}
	if s.Consume('e') || s.Consume('E') {
		if !s.Consume('+') {
			s.Consume('-')
		}
		return s.digits() > 0
	}
	return true
}

// digits consumes digits and returns how many there were.
func (s *Scanner) digits() int {
	start := s.Pos
	for s.Pos < len(s.Text) && s.Text[s.Pos] >= '0' && s.Text[s.Pos] <= '9' {
		s.Pos++
	}
	return s.Pos - start
}

// Valid reports whether text is exactly one JSON value.
func Valid(text []byte) bool { return ValidWithin(text, MaxDepth) }

// ValidWithin is Valid for values that are nested up to depth levels.
func ValidWithin(text []byte, depth int) bool {
	s := Scanner{Text: text, MaxDepth: depth}
	s.SkipSpace()
	return s.value() && s.AtEnd()
}

// bracketStack remembers for each open bracket whether it is that of an object, one
// bit each. The first 128 levels need no memory.
type bracketStack struct {
	depth    int
	inline   [2]uint64
	overflow []uint64
}

// push adds an open bracket.
func (n *bracketStack) push(object bool) {
	n.depth++
	w, bit := n.word(), uint64(1)<<(n.depth&63)
	if object {
		*w |= bit
	} else {
		*w &^= bit
	}
}

// inObject reports whether the innermost open bracket is that of an object.
func (n *bracketStack) inObject() bool { return *n.word()&(1<<(n.depth&63)) != 0 }

// word returns the word that holds the bit of the innermost open bracket.
func (n *bracketStack) word() *uint64 {
	i := n.depth >> 6
	if i < len(n.inline) {
		return &n.inline[i]
	}
	i -= len(n.inline)
	for i >= len(n.overflow) {
		n.overflow = append(n.overflow, 0)
	}
	return &n.overflow[i]
}
