package display

import "strings"

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
