// Package pattern bounds the regular expressions that servers declare. A few bytes of one
// can cost gigabytes to compile and minutes to parse, so that the text is looked at before it
// is parsed, and the parse tree before it is compiled.
package pattern

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
)

const (
	// MaxBytes bounds a pattern, in bytes.
	MaxBytes = 1 << 10
	// maxUnicodeClasses bounds the classes such as \pL in a pattern: each is a table of up
	// to 1,500 numbers.
	maxUnicodeClasses = 16
	// maxTranslatedBytes bounds a pattern that Translate returns.
	maxTranslatedBytes = 16 * MaxBytes
	// runesPerStep is how many bounds of character ranges count as one step, because each
	// copy of a class can have a table of its own.
	runesPerStep = 64
)

var (
	// ErrTooLarge is the error of a pattern that exceeds a bound.
	ErrTooLarge = errors.New("the regular expression is too large")
	errForeign  = errors.New("Go reads the regular expression in another way")
)

// Steps returns about how many instructions the compiled program of a pattern of Go has,
// repetitions expanded, without compiling it. A match takes up to that many steps for each
// character. The error says why the pattern cannot be used: it is malformed, its text is too
// large, or it has more steps than most.
func Steps(pattern string, most int) (int, error) {
	parsed, err := parse(pattern)
	if err != nil {
		return 0, err
	}
	n := steps(parsed, most)
	if n > most {
		return 0, ErrTooLarge
	}
	return n, nil
}

// parse parses a pattern whose text shows that this is cheap.
func parse(pattern string) (*syntax.Regexp, error) {
	if len(pattern) > MaxBytes {
		return nil, fmt.Errorf("%w: it is longer than %d bytes", ErrTooLarge, MaxBytes)
	}
	if !isCheap(pattern) {
		return nil, ErrTooLarge
	}
	return syntax.Parse(pattern, syntax.Perl)
}

// isCheap reports whether the text of a pattern shows that it takes little to parse.
func isCheap(pattern string) bool {
	classes, folds, beyondASCII := 0, false, false
	for i := 0; i < len(pattern); i++ {
		switch rest := pattern[i+1:]; {
		case pattern[i] >= 0x80:
			beyondASCII = true
		case pattern[i] == '\\':
			if hasAnyPrefix(rest, "p", "P") {
				classes++
			}
			beyondASCII = beyondASCII || hasAnyPrefix(rest, "x", "S") // Translate makes \S many wide ranges
			i++
		case pattern[i] == '(' && strings.HasPrefix(rest, "?"):
			flags := rest[:strings.IndexAny(rest+")", ":)")]
			folds = folds || strings.Contains(flags, "i")
		}
	}
	// Without regard to case, a range is expanded character by character, and a class to the
	// ranges of both cases.
	return classes <= maxUnicodeClasses && (!folds || !beyondASCII && classes == 0)
}

// steps counts the instructions of a parse tree, at least until they are more than most.
func steps(re *syntax.Regexp, most int) int {
	n := 0
	for _, sub := range re.Sub {
		if n += steps(sub, most); n > most {
			return n
		}
	}
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpCharClass:
		n = 1 + len(re.Rune)/runesPerStep
	case syntax.OpRepeat: // x{2,5} becomes xx(x(x(x)?)?)?, and x{2,} becomes xx+
		n = n*max(re.Min, re.Max, 1) + max(re.Max-re.Min, 1)
	case syntax.OpConcat:
	case syntax.OpAlternate:
		n += len(re.Sub)
	default:
		n += 2
	}
	return max(n, 1)
}

const (
	// ecmaSpace is what \s matches in ECMA-262, and ecmaNotSpace what \S matches, as they
	// are written within brackets. Each ends with a range, so that a hyphen after it is
	// itself.
	ecmaSpace    = `\x20\x{a0}\x{1680}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}\x{2000}-\x{200a}\t-\r`
	ecmaNotSpace = `\x00-\x08\x0e-\x1f!-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}` +
		`\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}`
	// sameEscapes are the letters that mean the same after a backslash in Go.
	sameEscapes = "dDwWbBfnrtv"
)

// Translate writes a pattern of ECMA-262, as JSON Schema has them, as one of Go that matches
// the same. It fails if Go does not know the pattern, or reads it in another way.
func Translate(pattern string) (string, error) {
	if _, err := parse(pattern); err != nil {
		return "", err
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
				return "", errForeign
			}
			b.WriteString(escape)
		case inClass && strings.HasPrefix(rest, "[:"): // a named class in Go
			return "", errForeign
		case inClass:
			inClass = c != ']'
			b.WriteByte(c)
		case c == '[':
			if strings.HasPrefix(rest, "[]") || strings.HasPrefix(rest, "[^]") { // Go continues with the class
				return "", errForeign
			}
			inClass = true
			b.WriteByte(c)
		case c == '.':
			b.WriteString(`[^\n\r\x{2028}\x{2029}]`)
		case strings.HasPrefix(rest, "(?") && !hasAnyPrefix(rest[2:], ":", "<", "P<", "i)", "i:"):
			return "", errForeign
		default:
			b.WriteByte(c)
		}
		rest = rest[n:]
	}
	if b.Len() > maxTranslatedBytes {
		return "", ErrTooLarge
	}
	return b.String(), nil
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

// Cache compiles patterns of ECMA-262 and keeps them, in bounded memory. The zero value is
// empty. Safe for concurrent use.
type Cache struct {
	mu       sync.Mutex
	compiled map[string]*Compiled // guarded by mu
	bytes    int                  // about what compiled holds; guarded by mu
}

// Compiled is a pattern that texts can be compared with. It does not change.
type Compiled struct {
	// Err is why the pattern cannot be used, and nothing else may be called.
	Err   error
	re    *regexp.Regexp
	steps int
}

const (
	// maxSteps bounds the steps of one pattern of a cache.
	maxSteps = 256
	// maxCacheBytes bounds what a cache keeps, about.
	maxCacheBytes = 4 << 20
	// bytesPerStep is how much memory one step of a compiled pattern takes, about.
	bytesPerStep = 512
	// bytesPerClass is how much memory the table of a class such as \pL takes, about; after
	// several were joined, it keeps its size.
	bytesPerClass = 8 << 10
)

// CompileSteps is how long it takes at most to compile a pattern, in steps of a match.
func CompileSteps(pattern string) int { return 2000 + 200*min(len(pattern), MaxBytes) }

// Get returns a compiled pattern, if the cache has it.
func (c *Cache) Get(pattern string) (compiled *Compiled, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	compiled, known = c.compiled[pattern]
	return compiled, known
}

// Compile compiles and keeps a pattern.
func (c *Cache) Compile(pattern string) *Compiled {
	if len(pattern) > MaxBytes {
		return compile(pattern) // it is not kept
	}
	pattern = strings.Clone(pattern) // what is kept, errors included, refers to it
	compiled := compile(pattern)
	size := (1+compiled.steps)*bytesPerStep + 2*len(pattern) + strings.Count(strings.ToLower(pattern), `\p`)*bytesPerClass
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bytes += size; c.bytes > maxCacheBytes || c.compiled == nil {
		c.compiled, c.bytes = map[string]*Compiled{}, size
	}
	c.compiled[pattern] = compiled
	return compiled
}

func compile(pattern string) *Compiled {
	translated, err := Translate(pattern)
	if err != nil {
		return &Compiled{Err: err}
	}
	parsed, err := syntax.Parse(translated, syntax.Perl)
	if err != nil {
		return &Compiled{Err: err}
	}
	n := steps(parsed, maxSteps)
	if n > maxSteps {
		return &Compiled{Err: ErrTooLarge}
	}
	re, err := regexp.Compile(translated)
	if err != nil {
		return &Compiled{Err: err}
	}
	return &Compiled{re: re, steps: n}
}

// Matches reports whether a text matches the pattern.
func (p *Compiled) Matches(text string) bool { return p.re.MatchString(text) }

// Steps is how long a match with a text takes at most.
func (p *Compiled) Steps(text string) int { return 1 + p.steps*(1+len(text)) }
