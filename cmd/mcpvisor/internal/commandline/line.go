package commandline

import "strings"

// SplitLine splits a line of bash into words: those after the name of the program, the last
// of which is being typed. broken is what of that word bash does not expect in candidates:
// up to the last character of breaks (COMP_WORDBREAKS), which bash takes for a word.
func SplitLine(line, breaks string) (words []string, broken string) {
	var word strings.Builder
	var quote rune
	escaped, inWord := false, false
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				word.WriteRune(r)
			}
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == ' ' || r == '\t':
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	last := word.String()
	words = append(words, last)
	return words[min(1, len(words)-1):], last[:strings.LastIndexAny(last, breaks)+1]
}
