// Package display makes text of servers safe to show on a terminal, in a log and to a
// model. The library and the command line tool share it, so that both remove the same
// characters.
package display

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line returns text on one line: valid UTF-8, with a space for each line break and tab,
// without unsafe characters ([IsUnsafe]). So a text cannot forge a line of a log or send
// an escape sequence to a terminal.
func Line(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case isLineBreak(r), r == '\t':
			return ' '
		case IsUnsafe(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD")))
}

// Text is [Line] for a text of several lines: it keeps '\n' and '\t'.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && IsUnsafe(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// WithoutColors removes escape sequences for colours, even those that have lost their first
// character, as [Line] makes them.
func WithoutColors(text string) string {
	if !strings.Contains(text, "[") {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		start := i
		if text[i] == '\x1b' {
			i++
		}
		if i < len(text) && text[i] == '[' {
			j := i + 1
			for j < len(text) && (text[j] >= '0' && text[j] <= '9' || text[j] == ';') {
				j++
			}
			if j < len(text) && (text[j] == 'm' || text[j] == 'K') && (j+1 == len(text) || text[j+1] != ']') {
				i = j + 1
				continue
			}
		}
		i = start + 1
		b.WriteByte(text[start])
	}
	return b.String()
}

// IsUnsafe reports whether a character must not reach a terminal as it is: a
// control character, a line or paragraph separator, a mark that changes the
// direction of the text around it (Unicode Bidi_Control), or a tag character,
// which is invisible on a terminal and visible to a model.
func IsUnsafe(r rune) bool {
	return unicode.IsControl(r) || isLineBreak(r) || unicode.Is(unicode.Bidi_Control, r) || r >= 0xE0000 && r <= 0xE007F
}

// Escaped returns JSON in which each character that a reader would not see, or that changes how others are seen, is
// an escape, as in \u202e.
func Escaped(json string) string {
	var b strings.Builder
	for _, r := range json {
		switch {
		case unicode.IsPrint(r) && !isIgnorable(r):
			b.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// isLineBreak reports whether a character ends a line.
func isLineBreak(r rune) bool {
	return r == '\n' || r == '\r' || r == '\u2028' || r == '\u2029'
}

// Count returns a number with its noun: "1 tool", "2 tools". The plural of the
// noun ends with "s".
func Count[N int | int64 | uint64](n N, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Prefix returns the beginning of a text: at most size bytes, and whole characters.
func Prefix(text string, size int) string {
	if len(text) <= size {
		return text
	}
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return text[:max(size, 0)]
}

// MaxQuoteBytes is how much of a text that came from a peer fits into an error. Use
// it with [Shorten].
const MaxQuoteBytes = 500

// cutMark ends a text that [Shorten] has cut.
const cutMark = " … (cut)"

// Shorten returns a text of at most size bytes. A longer text is cut and ends with
// " … (cut)". size must be greater than the length of that mark.
func Shorten(text string, size int) string {
	if len(text) <= size {
		return text
	}
	return Prefix(text, size-len(cutMark)) + cutMark
}

// AfterRestarts says how much of a retry budget was spent: "after 2 of 3 restarts". A
// negative budget is unlimited.
func AfterRestarts(made, budget int) string {
	if budget < 0 {
		return "after " + Count(made, "restart")
	}
	return fmt.Sprintf("after %d of %s", made, Count(budget, "restart"))
}
