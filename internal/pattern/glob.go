package pattern

import "unicode/utf8"

// Glob reports whether a pattern in which * stands for any text and ? for one character matches a whole text, in at most
// len(glob)·len(text) steps. It allocates nothing.
func Glob(glob, text string) bool {
	i, j := 0, 0
	star, from := -1, 0 // the last *, and the end of the text that it matches so far
	for j < len(text) {
		switch {
		case i < len(glob) && glob[i] == '*':
			star, from = i, j
			i++
		case i < len(glob) && glob[i] == '?':
			_, size := utf8.DecodeRuneInString(text[j:])
			i++
			j += size
		case i < len(glob) && glob[i] == text[j]:
			i++
			j++
		case star >= 0: // let the last * match one more character
			_, size := utf8.DecodeRuneInString(text[from:])
			from += size
			i, j = star+1, from
		default:
			return false
		}
	}
	for i < len(glob) && glob[i] == '*' {
		i++
	}
	return i == len(glob)
}
