package display

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// ForModel returns a text of a server as a language model may read it: without the
// characters that a model reads and a person who looks at the same text does not see. With
// them a server can tell a model something that no user notices. removed names the kinds of
// what was removed, as in "control characters, tag characters"; it is empty if nothing
// was.
//
//   - Control characters (C0, C1), escape sequences with them. Every line break becomes
//     '\n'; that and '\t' stay.
//   - Marks of the direction of text (Bidi_Control). They change how a text looks, not what
//     it says.
//   - Tag characters (U+E0000 to U+E007F), except in the flags of England, Scotland and Wales.
//   - Other invisible characters (Default_Ignorable_Code_Point): zero-width space, soft
//     hyphen, word joiner, byte order mark, fillers.
//
// What a script needs stays where it has an effect, one at a time: joiners (ZWJ, ZWNJ) after
// an emoji and after a letter that is not Latin, Greek or Cyrillic, variation selectors after
// what they can vary.
func ForModel(text string) (clean, removed string) {
	if isPlain(text) {
		return text, ""
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	var b strings.Builder
	var kinds hiddenKind
	copied := 0         // bytes of text that b has, or that were left out
	before := rune(' ') // the last character that stays
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == blackFlag {
			size += flagTags(text[i+size:])
		}
		lineBreak := r != '\n' && isBreak(r)
		kind := hidden(r, before)
		if kind != 0 || lineBreak {
			b.WriteString(text[copied:i])
			copied = i + size
		}
		switch {
		case lineBreak && r == '\r' && strings.HasPrefix(text[copied:], "\n"):
		case lineBreak:
			b.WriteByte('\n')
			before = '\n'
		case kind == 0:
			before = r
		}
		kinds |= kind
		i += size
	}
	if copied == 0 {
		return text, ""
	}
	b.WriteString(text[copied:])
	return b.String(), kinds.String()
}

// isPlain reports whether a text is printable ASCII with '\n' and '\t', as most are.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < ' ' || c > '~') && c != '\n' && c != '\t' {
			return false
		}
	}
	return true
}

// isBreak reports whether a character ends a line or a page.
func isBreak(r rune) bool { return isLineBreak(r) || r == '\v' || r == '\f' || r == '\u0085' }

// hiddenKind is a set of kinds of characters that [ForModel] removes.
type hiddenKind uint8

const (
	hiddenControl hiddenKind = 1 << iota
	hiddenDirection
	hiddenTag
	hiddenOther
)

// String names the kinds.
func (k hiddenKind) String() string {
	var names []string
	for _, kind := range []struct {
		hiddenKind
		name string
	}{{hiddenControl, "control characters"}, {hiddenDirection, "marks of the text direction"}, {hiddenTag, "tag characters"}, {hiddenOther, "invisible characters"}} {
		if k&kind.hiddenKind != 0 {
			names = append(names, kind.name)
		}
	}
	return strings.Join(names, ", ")
}

// ignorable are the characters that are not shown (Default_Ignorable_Code_Point): the
// tables below, without those of visible.
var (
	ignorable = []*unicode.RangeTable{unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector}
	visible   = []*unicode.RangeTable{unicode.Prepended_Concatenation_Mark, unicode.Egyptian_Hieroglyphs}
)

// hidden returns the kind of a character that is removed, and 0 for one that stays after
// before.
func hidden(r, before rune) hiddenKind {
	switch {
	case r == '\n', r == '\t', isBreak(r):
		return 0
	case unicode.IsControl(r):
		return hiddenControl
	case r < 0xAD: // the first that is not shown is the soft hyphen
		return 0
	case unicode.Is(unicode.Bidi_Control, r):
		return hiddenDirection
	case r >= 0xE0000 && r <= 0xE007F:
		return hiddenTag
	case !isIgnorable(r), hasEffect(r, before):
		return 0
	}
	return hiddenOther
}

func isIgnorable(r rune) bool { return unicode.In(r, ignorable...) && !unicode.In(r, visible...) }

// hasEffect reports whether a character that is not shown changes how the one before it is
// written.
func hasEffect(r, before rune) bool {
	emojiStyle := before == '\uFE0F'
	if isIgnorable(before) && !emojiStyle {
		return false
	}
	european := unicode.In(before, unicode.Latin, unicode.Greek, unicode.Cyrillic)
	switch {
	case r == '\u200C', r == '\u200D', r == '\u034F': // joiners
		return emojiStyle || !european && unicode.In(before, unicode.L, unicode.M, unicode.So, unicode.Sk)
	case r >= '\uFE00' && r <= '\uFE0F':
		if before < 0x80 { // as in keycaps
			return before >= '0' && before <= '9' || before == '#' || before == '*'
		}
		return !emojiStyle && !european && !unicode.IsSpace(before)
	case r >= 0xE0100 && r <= 0xE01EF:
		return unicode.Is(unicode.Han, before)
	case r >= '\u180B' && r <= '\u180F':
		return unicode.Is(unicode.Mongolian, before)
	}
	return false
}

// blackFlag begins the flags that are written with tag characters.
const blackFlag = 0x1F3F4

// flags are the tag characters behind a black flag that make the flags of England, Scotland
// and Wales.
var flags = func() (tags []string) {
	for _, region := range []string{"gbeng", "gbsct", "gbwls"} {
		tags = append(tags, strings.Map(func(r rune) rune { return 0xE0000 + r }, region+"\x7F"))
	}
	return tags
}()

// flagTags returns the length of the tag characters that make a flag of a black one, in
// bytes; 0 if text begins with others.
func flagTags(text string) int {
	for _, tags := range flags {
		if strings.HasPrefix(text, tags) {
			return len(tags)
		}
	}
	return 0
}
