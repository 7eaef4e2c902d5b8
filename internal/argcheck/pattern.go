package argcheck

import (
	"regexp/syntax"
	"strings"
)

const (
	// maxInstructions bounds the compiled length of a pattern.
	maxInstructions = 256
	// ecmaSpace is what \s matches in ECMA-262, and ecmaNotSpace what \S matches, as they
	// are written within brackets. Each ends with a range, so that a hyphen after it is
	// itself.
	ecmaSpace    = `\x20\x{a0}\x{1680}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}\x{2000}-\x{200a}\t-\r`
	ecmaNotSpace = `\x00-\x08\x0e-\x1f!-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}` +
		`\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}`
	// sameEscapes are the letters that mean the same after a backslash in Go.
	sameEscapes = "dDwWbBfnrtv"
)

// translate writes a pattern of ECMA-262, as JSON Schema has them, as one of Go that matches
// the same. ok is false if it cannot: Go does not know the pattern, reads it in another way,
// or would match it slowly.
func translate(pattern string) (translated string, ok bool) {
	if len(pattern) > 4*maxInstructions {
		return "", false
	}
	if _, err := syntax.Parse(pattern, syntax.Perl); err != nil {
		return "", false
	}
	var b strings.Builder
	inClass := false
	for rest := pattern; rest != ""; {
		n := 1
		switch c := rest[0]; {
		case c == '\\':
			n = 2
			escape, known := translateEscape(rest[1:], inClass)
			if !known {
				return "", false
			}
			b.WriteString(escape)
		case inClass && strings.HasPrefix(rest, "[:"): // a named class in Go
			return "", false
		case inClass:
			inClass = c != ']'
			b.WriteByte(c)
		case c == '[':
			if strings.HasPrefix(rest, "[]") || strings.HasPrefix(rest, "[^]") { // Go goes on with the class
				return "", false
			}
			inClass = true
			b.WriteByte(c)
		case c == '.':
			b.WriteString(`[^\n\r\x{2028}\x{2029}]`)
		case strings.HasPrefix(rest, "(?") && !hasAnyPrefix(rest[2:], ":", "<", "P<", "i)", "i:"):
			return "", false
		default:
			b.WriteByte(c)
		}
		rest = rest[n:]
	}
	parsed, err := syntax.Parse(b.String(), syntax.Perl)
	if err != nil {
		return "", false
	}
	program, err := syntax.Compile(parsed.Simplify())
	return b.String(), err == nil && len(program.Inst) <= maxInstructions
}

// sameInGo reports whether a pattern needs no translation.
func sameInGo(pattern string) bool {
	translated, ok := translate(pattern)
	return ok && translated == pattern
}

// translateEscape writes the escape whose backslash precedes rest; known is false if Go
// reads it in another way. What follows the first byte of rest is copied later.
func translateEscape(rest string, inClass bool) (escape string, known bool) {
	switch c := rest[0]; {
	case c == 's' && inClass:
		return ecmaSpace, true
	case c == 's':
		return "[" + ecmaSpace + "]", true
	case c == 'S' && inClass:
		return ecmaNotSpace, true
	case c == 'S':
		return "[" + ecmaNotSpace + "]", true
	case c == 'x':
		known = !strings.HasPrefix(rest, "x{")
	case c == 'p', c == 'P':
		known = len(rest) > 1 && rest[1] == '{'
	case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		known = strings.IndexByte(sameEscapes, c) >= 0
	default:
		known = true // a character that means itself
	}
	return `\` + rest[:1], known
}

func hasAnyPrefix(text string, prefixes ...string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(text, p) {
			return true
		}
	}
	return false
}
