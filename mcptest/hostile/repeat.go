package hostile

import (
	"strconv"
	"strings"
)

// many stands for text, repeated. It is written out when it is sent, because all
// misbehaviours together send hundreds of megabytes. It may be nested.
func many(text string, times int) string { return "⟦" + strconv.Itoa(times) + "×" + text + "⟧" }

// expand writes out what many repeats.
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

// closingBracket returns where the bracket that was opened before text is closed.
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
