package hostile

import (
	"strconv"
	"strings"
)

// repeated returns a short form of text repeated n times. Only write expands it,
// because all misbehaviours together send hundreds of megabytes. It may be nested.
func repeated(text string, times int) string {
	return "⟦" + strconv.Itoa(times) + "×" + text + "⟧"
}

// expand writes out what repeated has shortened.
func expand(text string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "⟦")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		times, rest, _ := strings.Cut(rest, "×")
		n, _ := strconv.Atoi(times)
		end := closingBracket(rest)
		b.WriteString(strings.Repeat(expand(rest[:end]), n))
		text = rest[end+len("⟧"):]
	}
}

// closingBracket returns the position of the bracket that closes the one before text.
func closingBracket(text string) int {
	for i, depth := 0, 0; ; {
		end := i + strings.Index(text[i:], "⟧")
		depth += strings.Count(text[i:end], "⟦")
		if depth == 0 {
			return end
		}
		depth--
		i = end + len("⟧")
	}
}
