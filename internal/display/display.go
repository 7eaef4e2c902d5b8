// Package display makes text of servers safe to show on a terminal, in a log and to a
// model. The library and the command line tool share it, so that both remove the same
// characters.
package display

import (
	"fmt"
	"strings"
	"time"
	"unicode"
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

// JSON returns JSON text with every unsafe character escaped, except line breaks. JSON
// allows these characters in strings only, so the value does not change.
func JSON(text string) string {
	if strings.IndexFunc(text, needsEscape) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case !needsEscape(r):
			b.WriteRune(r)
		case r > 0xFFFF:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xD800+r>>10, 0xDC00+r&0x3FF)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// needsEscape reports whether JSON escapes a character.
func needsEscape(r rune) bool { return r != '\n' && IsUnsafe(r) }

// IsUnsafe reports whether a character must not reach a terminal as it is: a
// control character, a line or paragraph separator, a mark that changes the
// direction of the text around it (Unicode Bidi_Control), or a tag character,
// which is invisible on a terminal and visible to a model.
func IsUnsafe(r rune) bool {
	return unicode.IsControl(r) || isLineBreak(r) || unicode.Is(unicode.Bidi_Control, r) || r >= 0xE0000 && r <= 0xE007F
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

// Duration returns a duration for a narrow column, at most seven characters up to a
// thousand days: "0s", "412ms", "3.2s", "47s", "12m08s", "3h12m", "4d07h". It is cut and
// not rounded, so that an age is never shown before it is reached. Negative durations are
// 0s.
func Duration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "0s"
	case d < time.Second:
		return fmt.Sprintf("%dms", d/time.Millisecond)
	case d < 10*time.Second:
		return fmt.Sprintf("%d.%ds", d/time.Second, d%time.Second/(100*time.Millisecond))
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	const day = 24 * time.Hour
	return fmt.Sprintf("%dd%02dh", d/day, d%day/time.Hour)
}
