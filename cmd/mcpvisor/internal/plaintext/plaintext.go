// Package plaintext writes words, durations and JSON as the commands show them.
package plaintext

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/display"
)

// unquoted are the characters that no shell changes in a word, beside letters and digits.
const unquoted = "_-./:@%+,=…"

// ShellWord returns a text as one word of a command line of a POSIX shell, in quotes where it
// needs them. The text may come from a server: nothing in it is executed.
func ShellWord(text string) string {
	changes := func(r rune) bool {
		return r < 0x80 && !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9') && !strings.ContainsRune(unquoted, r)
	}
	if text != "" && !strings.ContainsFunc(text, changes) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
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
func needsEscape(r rune) bool { return r != '\n' && display.IsUnsafe(r) }

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

// Labels returns labels as NAME=VALUE, in the order of their names.
func Labels(labels map[string]string) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		texts = append(texts, name+"="+labels[name])
	}
	return strings.Join(texts, " ")
}

// Took is Duration for how long something took: below 10 ms it has more digits, as in "256µs" and
// "4.1ms".
func Took(d time.Duration) string {
	switch {
	case d <= 0:
		return "0s"
	case d < time.Millisecond:
		return fmt.Sprintf("%dµs", d/time.Microsecond)
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1fms", float64(d)/float64(time.Millisecond))
	}
	return Duration(d)
}

// Memory returns a number of bytes for a narrow column: "812K", "80M", "1.4G".
func Memory(bytes int64) string {
	const unit = 1024
	switch {
	case bytes < unit*unit:
		return fmt.Sprintf("%dK", bytes/unit)
	case bytes < unit*unit*unit:
		return fmt.Sprintf("%dM", bytes/unit/unit)
	}
	return fmt.Sprintf("%.1fG", float64(bytes)/unit/unit/unit)
}
